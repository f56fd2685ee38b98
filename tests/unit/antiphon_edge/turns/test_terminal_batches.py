from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import get_ident

import pytest

from antiphon_core import events, response
from antiphon_core.errors import (
    AntiphonError,
    ContextLengthExceeded,
    EngineFault,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
    StoreUnavailable,
    TooLarge,
    TranslatorUnavailable,
)
from antiphon_core.fold import Fold, fold
from antiphon_core.jsons import Object, loads
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.turns.terminal_batches import cancellation, failed_before_output, failure, final_of, unstorable

RESPONSE_ID = "resp_" + "0" * 48
ITEM: Object = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}


def so_far() -> Fold:
    """A response with an open item."""
    born = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    folding = Fold()
    log: list[Object] = [
        {"type": events.CREATED, "response": born},
        {"type": events.OUTPUT_ITEM_ADDED, "output_index": 0, "item": ITEM},
    ]
    for number, event in enumerate(log):
        folding.feed(first_sequence=number, count=1, frames=events.encode(event | {"sequence_number": number}))
    return folding


async def test_failure_continues_the_sequence_numbers_and_closes_open_items() -> None:
    batch = await failure(so_far(), EngineTimeout("no token"))
    log = events.decode(batch.frames)
    assert [(event["type"], event["sequence_number"]) for event in log] == [(events.ERROR, 2), (events.FAILED, 3)]
    assert (batch.first_sequence, batch.count) == (2, 2)
    ended = log[-1]["response"]
    assert (log[0]["code"], ended["status"]) == ("engine_timeout", "failed")
    assert (type(response.error_of(ended)), ended["error"]["message"]) == (EngineTimeout, "no token")
    assert ended["output"][0]["status"] == "incomplete"
    assert final_of(batch).status is Status.FAILED
    assert loads(response.join(final_of(batch).body, final_of(batch).output_items)) == ended == fold(log)


async def test_failed_response_keeps_its_error_code_only_if_openais_list_has_it() -> None:
    log = events.decode((await failure(so_far(), ContextLengthExceeded.of(input_tokens=9, context_length=8))).frames)
    assert log[0]["code"] == log[1]["response"]["error"]["code"] == "context_length_exceeded"
    assert (log[0]["error"]["type"], log[0]["param"]) == ("invalid_request_error", "input")
    log = events.decode((await failure(so_far(), StoreUnavailable("gone"))).frames)
    assert (log[0]["code"], log[1]["response"]["error"]["code"]) == ("store_unavailable", "server_error")


async def test_a_cancellation_is_one_event() -> None:
    batch = await cancellation(so_far())
    (event,) = events.decode(batch.frames)
    assert (event["type"], event["sequence_number"]) == (events.CANCELLED, 2)
    assert event["response"]["status"] == "cancelled"
    assert final_of(batch).status is Status.CANCELLED


def test_only_a_terminal_batch_ends_a_turn() -> None:
    with pytest.raises(AssertionError):
        final_of(Batch(0, 1, b""))


def ended_with(error: AntiphonError, output_tokens: int | None, *output: Object) -> Final:
    usage = None if output_tokens is None else response.usage(input_tokens=3, output_tokens=output_tokens)
    born = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    body, output_items = response.split(response.fail(born | {"usage": usage, "output": output}, error))
    return Final(Status.FAILED, body, output_items)


@pytest.mark.parametrize(
    ("final", "is_nothing"),
    [
        (ended_with(EngineUnavailable("overloaded"), 0), True),
        (ended_with(EngineTimeout("no token"), 0), True),
        (ended_with(TranslatorUnavailable("gone"), None), True),
        (ended_with(EngineUnavailable("overloaded"), 0, ITEM), True),  # an item that the model was forced to begin
        (ended_with(EngineUnavailable("gone"), 1), False),
        (ended_with(TranslatorUnavailable("gone"), None, ITEM), False),
        (ended_with(EngineFault("CUDA error"), 0), False),
        (ended_with(InvalidRequest("No."), 0), False),
        (Final(Status.COMPLETED, b"{}", b"[]"), False),
    ],
)
def test_only_a_temporary_failure_without_tokens_is_before_output(final: Final, is_nothing: bool) -> None:
    assert failed_before_output(final) is is_nothing


async def test_a_turn_whose_output_is_too_large_fails_without_it() -> None:
    folding = so_far()
    batch = await unstorable(folding)
    folding.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
    ended = folding.response()
    assert (ended["status"], ended["output"]) == ("failed", [])
    assert batch.final is not None
    assert loads(response.join(batch.final.body, batch.final.output_items)) == ended
    assert isinstance(response.error_of(ended), TooLarge)


@pytest.mark.parametrize("make", [cancellation, unstorable, lambda fold: failure(fold, EngineTimeout("no token"))])
async def test_a_large_terminal_batch_is_made_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[Fold], Awaitable[Batch]]
) -> None:
    folding, threads = so_far(), list[int]()
    part = {"type": "output_text", "text": "x" * INLINE_BYTES_MAX}
    done = {"type": events.OUTPUT_ITEM_DONE, "output_index": 0, "item": ITEM | {"content": [part]}}
    folding.feed(first_sequence=2, count=1, frames=events.encode(done | {"sequence_number": 2}))
    split = response.split

    def recorded(ended: Object) -> tuple[bytes, bytes]:
        threads.append(get_ident())
        return split(ended)

    monkeypatch.setattr(response, "split", recorded)
    await make(folding)
    await make(so_far())
    assert threads[0] != threads[1] == get_ident()
