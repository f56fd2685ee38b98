"""A translator that answers what its protocol excludes is a server error of the turn, never a mistake of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from antiphon_core import events
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_core.rpc.codec import encode
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_translator import wire
from antiphon_translator.client import TranslatorClient
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.pushed import generated
from tests.support.served_models import turn
from tests.support.translators import ScriptedTranslator

Answers = list[Batch]
GENERATE = TRANSLATOR.methods["Generate"]


def wired(batch: Batch) -> bytes:
    return bytes(wire.batch_message(batch).SerializeToString())


async def batches() -> Answers:
    return [batch async for batch in generated(ScriptedTranslator(), turn("hi"))]


def repeated(sent: Answers) -> Answers:
    return [*sent[:4], sent[3], *sent[4:]]


def repeated_with_other_numbers(sent: Answers) -> Answers:
    again = Batch(sent[3].first_sequence + 1, 1, sent[3].frames)
    return [*sent[:4], again]


def with_a_gap(sent: Answers) -> Answers:
    return [*sent[:3], *sent[4:]]


def after_the_end(sent: Answers) -> Answers:
    last = sent[-1].first_sequence + sent[-1].count
    return [*sent, Batch(last, 1, events.encode({"type": events.IN_PROGRESS, "sequence_number": last}))]


def miscounted(sent: Answers) -> Answers:
    return [*sent[:3], Batch(sent[3].first_sequence, 2, sent[3].frames)]


def no_response_at_the_end(sent: Answers) -> Answers:
    final = Final(Status.COMPLETED, b"<html>", b"</html>")
    return [*sent[:-1], Batch(sent[-1].first_sequence, sent[-1].count, sent[-1].frames, final)]


def garbled(_sent: Answers) -> Iterator[bytes]:
    yield b"\xff\xff\xff"


def of_another_protocol(_sent: Answers) -> Iterator[bytes]:
    yield b"HTTP/1.1 400 Bad Request"


def without_events_but_with_frames(_sent: Answers) -> Iterator[bytes]:
    yield encode(GENERATE.response, wire.batch_message(Batch(0, 0, b"event: x\ndata: {}\n\n")))


@asynccontextmanager
async def edge_of(answer: Callable[[], AsyncIterator[bytes]]) -> AsyncIterator[Http]:
    """An edge whose translator answers every turn so."""

    async def generate(_request: bytes, context: Any) -> AsyncIterator[bytes]:
        async for message in answer():
            if isinstance(message, grpc.StatusCode):
                await context.abort(message, "why")
            yield message

    server = grpc.aio.server()
    handlers: dict[str, Any] = {"Generate": grpc.unary_stream_rpc_method_handler(generate)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(GENERATE.service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    translator = TranslatorClient(f"127.0.0.1:{port}")
    try:
        async with running(translator=translator) as system:
            yield system.http
    finally:
        await translator.close()
        await server.stop(0)


CASES = (
    repeated,
    repeated_with_other_numbers,
    with_a_gap,
    after_the_end,
    miscounted,
    no_response_at_the_end,
    garbled,
    of_another_protocol,
    without_events_but_with_frames,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_malformed_answer_of_a_translator_is_a_bad_gateway(case: Any) -> None:
    sent = await batches()

    async def answer() -> AsyncIterator[bytes]:
        for each in case(sent):
            yield each if isinstance(each, bytes) else wired(each)

    async with edge_of(answer) as http:
        whole = await http.create(model="m", input="hi")
        streamed = await http.create(model="m", input="hi", stream=True)
    assert (whole.status, whole.json["error"]["code"]) == (502, "service_fault")
    if streamed.status == 200:  # the events before it were right
        log = streamed.events
        assert [event["sequence_number"] for event in log] == list(range(len(log)))
        assert (log[-1]["type"], log[-2]["code"]) == (events.FAILED, "service_fault")
    else:
        assert (streamed.status, streamed.json["error"]["code"]) == (502, "service_fault")


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_bare_status_of_a_translator_is_a_bad_gateway(code: grpc.StatusCode) -> None:
    async def answer() -> AsyncIterator[Any]:
        yield code

    async with edge_of(answer) as http:
        answered = await http.create(model="m", input="hi")
    assert (answered.status, answered.json["error"]["code"]) == (502, "service_fault")
