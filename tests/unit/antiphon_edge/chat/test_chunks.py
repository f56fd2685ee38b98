"""Events become chunks, and chunks add up to the completion of the response."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events, response
from antiphon_core.errors import InternalError
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.chat.chunks import ChunkStream
from antiphon_edge.chat.completions import completion_of
from tests.support.document import require
from tests.support.reasoning_model import CALL, EXEC, WEATHER, log_of_play

EXEC_CALL = ("<tool_call>", '{"name": "exec", "arguments": {"input": "ls"}}', "</tool_call>")
PLAYS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("Hi",), {}),
    (("<think>", "Hm.", "</think>", "Hi."), {}),
    (("<think>", "Hm.", "</think>", "I look.", *CALL, *CALL), {"tools": [WEATHER]}),
    (EXEC_CALL, {"tools": [EXEC]}),
    (("A long answer",), {"max_output_tokens": 3}),
]


def chunks_of(log: list[Object], *, include_usage: bool = False) -> list[Object]:
    stream = ChunkStream(include_usage=include_usage)
    told = b"".join(stream.feed(events.encode(event)) for event in log)
    found = [loads(line.removeprefix(b"data: ")) for line in told.split(b"\n\n") if line]
    for chunk in found:
        require("ChatStreamed", chunk)
    return found


def added_up(chunks: list[Object]) -> Object:
    """The message that a client puts together from the deltas."""
    message: Object = {"content": "", "reasoning_content": "", "tool_calls": []}
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name, "")
            for call in delta.get("tool_calls", []):
                _add_call(message["tool_calls"], call)
    return message


def _add_call(calls: list[Object], call: Object) -> None:
    if "id" in call:
        assert call["index"] == len(calls)
        calls.append({name: value for name, value in call.items() if name != "index"})
        return
    ((kind, more),) = ((name, value) for name, value in call.items() if name != "index")
    for name, value in more.items():
        calls[call["index"]][kind][name] += value


@pytest.mark.parametrize(("said", "request_"), PLAYS)
def test_chunks_add_up_to_the_completion(said: tuple[str, ...], request_: dict[str, Any]) -> None:
    log = log_of_play(*said, **request_)
    whole = completion_of(log[-1]["response"])
    (choice,) = whole["choices"]
    chunks = chunks_of(log)
    assert {chunk["id"] for chunk in chunks} == {whole["id"]}
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [choice["finish_reason"]]
    assert added_up(chunks) == {
        "content": choice["message"]["content"] or "",
        "reasoning_content": choice["message"].get("reasoning_content", ""),
        "tool_calls": choice["message"].get("tool_calls", []),
    }


@given(cuts=st.sets(st.integers(0, 30)))
def test_chunks_do_not_depend_on_how_frames_are_batched(cuts: set[int]) -> None:
    log = log_of_play("Hi there", *CALL, tools=[WEATHER])
    stream, told, pending = ChunkStream(include_usage=True), b"", b""
    for index, event in enumerate(log):
        pending += events.encode(event)
        if index in cuts:
            told, pending = told + stream.feed(pending), b""
    one_by_one = ChunkStream(include_usage=True)
    assert told + stream.feed(pending) == b"".join(one_by_one.feed(events.encode(event)) for event in log)


def test_usage_comes_last_and_only_when_asked_for() -> None:
    log = log_of_play("Hi")
    assert not [chunk for chunk in chunks_of(log) if "usage" in chunk]
    *others, last = chunks_of(log, include_usage=True)
    assert {chunk["usage"] for chunk in others} == {None}
    assert (last["choices"], last["usage"]) == ([], completion_of(log[-1]["response"])["usage"])


def test_failure_ends_the_chunks_with_an_error_and_no_finish_reason() -> None:
    log = log_of_play("Hi")[:4]
    log.append(events.error_event(4, InternalError("Broken.")))
    log.append({"type": events.FAILED, "sequence_number": 5, "response": log[0]["response"]})
    chunks = chunks_of(log)
    assert chunks[-1]["error"]["message"] == "Broken."
    assert all(choice["finish_reason"] is None for chunk in chunks[:-1] for choice in chunk["choices"])


def test_log_probabilities_are_in_the_chunk_of_their_text() -> None:
    log = log_of_play("Hi")
    token = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    for event in log:
        if event["type"] == events.OUTPUT_TEXT_DELTA:
            event["logprobs"] = [token]
    told = [chunk["choices"][0]["logprobs"] for chunk in chunks_of(log)]
    assert {"content": [token], "refusal": None} in told


def test_events_without_a_chunk_are_not_parsed() -> None:
    stream = ChunkStream(include_usage=False)
    for event_type in (events.IN_PROGRESS, events.OUTPUT_TEXT_DONE, events.OUTPUT_ITEM_DONE, events.FAILED):
        assert stream.feed(events.frame(event_type, b"{no JSON")) == b""


@pytest.mark.parametrize(("said", "members"), PLAYS)
def test_the_end_of_a_batch_is_made_without_its_output(said: tuple[str, ...], members: dict[str, Any]) -> None:
    *log, terminal = log_of_play(*said, **members)
    body, output_items = response.split(terminal["response"])
    last = Batch(
        terminal["sequence_number"],
        1,
        events.frame(terminal["type"], b"{no JSON"),
        Final(Status(terminal["response"]["status"]), body, output_items),
    )
    stream, whole = ChunkStream(include_usage=True), ChunkStream(include_usage=True)
    for event in log:
        assert stream.feed(events.encode(event)) == whole.feed(events.encode(event))
    assert stream.of_batch(last) == whole.feed(events.encode(terminal))
