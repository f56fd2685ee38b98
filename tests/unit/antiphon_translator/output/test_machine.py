from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events, response
from antiphon_core.errors import ContextLengthExceeded, EngineFault
from antiphon_core.fold import fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Usage
from antiphon_translator.output.item_kinds import MCP_CALL
from antiphon_translator.output.machine import (
    Announce,
    Append,
    AppendScored,
    Begin,
    Close,
    Complete,
    Fail,
    IllegalInput,
    Incomplete,
    Input,
    Leave,
    OpenNext,
    Pause,
    ResponseMachine,
    State,
)
from tests.support.server_tools import SEARCH, listed

USAGE = Usage(input_tokens=7, output_tokens=5, reasoning_tokens=3, cached_tokens=2)
COMPLETE = Complete(USAGE, completed_at=1_700_000_009)
INCOMPLETE = Incomplete(USAGE, "max_output_tokens")
FAIL = Fail(USAGE, EngineFault("It broke."))
SCORED = AppendScored("x", [{"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}])
OPEN_CALL = OpenNext(MCP_CALL, {"server_label": "shop", "name": "search"})
ANNOUNCE = Announce(listed(SEARCH))
PAUSE = Pause(USAGE)
EXAMPLES: list[Input] = [
    *(Begin(), OpenNext(), OPEN_CALL, Append("x"), SCORED, Close(), Leave()),
    *(ANNOUNCE, PAUSE, COMPLETE, INCOMPLETE, FAIL),
]
PATHS: dict[State, list[Input]] = {
    State.IDLE: [],
    State.BETWEEN_ITEMS: [Begin()],
    State.IN_ITEM: [Begin(), OpenNext()],
    State.PAUSED: [Begin(), OPEN_CALL, Leave(), PAUSE],
    State.ENDED: [Begin(), COMPLETE],
}


def machine(*inputs: Input) -> ResponseMachine:
    skeleton = response.skeleton({"model": "m"}, response_id="resp_1", created_at=1_700_000_000)
    made = ResponseMachine(skeleton, SequentialIds())
    for one in inputs:
        made.send(one)
    return made


def log_of(batches: list[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


def test_completed_response_has_all_events_in_order() -> None:
    made = machine(Begin(), OpenNext(), Append("Hel"), Append("lo"), Close(), COMPLETE)
    log = log_of(made.take())
    assert [event["type"] for event in log] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in log] == list(range(10))
    created, _, added, part_added, delta, _, text_done, part_done, item_done, completed = log
    assert created["response"]["usage"] is None
    assert added["item"]["content"] == []
    assert added["item"]["status"] == "in_progress"
    assert part_added["part"]["text"] == ""
    assert delta["delta"] == "Hel"
    assert (text_done["text"], part_done["part"]["text"]) == ("Hello", "Hello")
    assert item_done["item"]["status"] == "completed"
    assert completed["response"]["status"] == "completed"
    assert completed["response"]["completed_at"] == 1_700_000_009
    assert completed["response"]["usage"]["total_tokens"] == 12
    assert completed["response"]["output"] == [item_done["item"]]


def test_incomplete_response_has_its_reason_and_an_incomplete_item() -> None:
    made = machine(Begin(), OpenNext(), Append("Hel"), Close("incomplete"), INCOMPLETE)
    ended = log_of(made.take())[-1]
    assert ended["type"] == "response.incomplete"
    assert ended["response"]["status"] == "incomplete"
    assert ended["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert ended["response"]["completed_at"] is None
    assert ended["response"]["output"][0]["status"] == "incomplete"


def test_failure_yields_an_error_event_and_a_failed_response_with_its_text() -> None:
    made = machine(Begin(), OpenNext(), Append("Hel"), FAIL)
    error, failed = log_of(made.take())[-2:]
    assert (error["type"], error["code"], error["message"]) == ("error", "engine_fault", "It broke.")
    assert failed["type"] == "response.failed"
    cause = {"reason": "ENGINE_FAULT"}
    assert failed["response"]["error"] == {"code": "server_error", "message": "It broke.", "cause": cause}
    assert failed["response"]["completed_at"] is None
    (item,) = failed["response"]["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hel")
    assert made.final is not None
    assert (made.final.status, loads(made.final.body)["error"]["cause"]) == (Status.FAILED, cause)


def test_failure_with_an_openai_code_keeps_it() -> None:
    made = machine(Begin(), Fail(USAGE, ContextLengthExceeded.of(input_tokens=9, context_length=8)))
    error, failed = log_of(made.take())[-2:]
    assert error["code"] == failed["response"]["error"]["code"] == "context_length_exceeded"
    assert (error["error"]["type"], error["param"]) == ("invalid_request_error", "input")


@pytest.mark.parametrize(("state", "given_input"), list(product(State, EXAMPLES)))
def test_input_without_a_transition_is_illegal_and_changes_nothing(state: State, given_input: Input) -> None:
    made = machine(*PATHS[state])
    assert made.state is state
    row = ResponseMachine.TRANSITIONS.get((state, type(given_input)))
    if row is not None:
        made.send(given_input)
        assert made.state is row.next_state
        return
    before = made.snapshot()
    with pytest.raises(IllegalInput, match=f"{type(given_input).__name__}.*{state.name}"):
        made.send(given_input)
    assert (made.state, made.snapshot()) == (state, before)


def test_transition_table_has_exactly_the_expected_rows() -> None:
    assert {(state.name, given_input.__name__) for state, given_input in ResponseMachine.TRANSITIONS} == {
        ("IDLE", "Begin"),
        ("BETWEEN_ITEMS", "OpenNext"),
        ("IN_ITEM", "Append"),
        ("IN_ITEM", "AppendScored"),
        ("IN_ITEM", "Close"),
        ("IN_ITEM", "Leave"),
        ("BETWEEN_ITEMS", "Announce"),
        ("BETWEEN_ITEMS", "Pause"),
        ("BETWEEN_ITEMS", "Complete"),
        ("BETWEEN_ITEMS", "Incomplete"),
        ("BETWEEN_ITEMS", "Fail"),
        ("IN_ITEM", "Fail"),
    }
    assert {type(example) for example in EXAMPLES} == set(get_args(Input))


@given(st.lists(st.sampled_from(EXAMPLES), max_size=30), st.randoms(use_true_random=False))
def test_folded_events_equal_the_snapshot_after_every_input(inputs: list[Input], random: Any) -> None:
    made = machine(Begin())
    log = log_of(made.take())
    for one in inputs:
        is_scored_call = one is SCORED and str(made.open_item_id).startswith("mcp_")  # only messages have scores
        if (made.state, type(one)) not in ResponseMachine.TRANSITIONS or is_scored_call:
            continue
        made.send(one)
        if random.random() < 0.5:
            log += log_of(made.take())
            if not made.left or made.state in (State.PAUSED, State.ENDED):  # otherwise the last event waits
                assert fold(log) == made.snapshot()
    if made.state is State.BETWEEN_ITEMS:
        made.send(PAUSE)
    log += log_of(made.take())
    if made.left and made.state is State.IN_ITEM:
        return
    assert fold(log) == made.snapshot()
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    terminal = [event for event in log if event["type"] in events.TERMINAL]
    assert len(terminal) == (made.state is State.ENDED)
    if made.final is not None:
        stored = loads(made.final.body) | {"output": loads(made.final.output_items)}
        assert stored == terminal[0]["response"] == fold(log)


def test_round_pauses_with_its_calls_open_and_with_the_last_event_of_the_call() -> None:
    made = machine(Begin(), OPEN_CALL, Append("{}"), Leave())
    before = made.take()
    made.send(PAUSE)
    (last,) = made.take()
    assert [event["type"] for event in log_of(before)][2:] == [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
    ]
    assert [event["type"] for event in log_of([last])] == ["response.mcp_call_arguments.done"]
    assert last.pause is not None
    assert loads(last.pause.output_items) == made.snapshot()["output"] == fold(log_of([*before, last]))["output"]
    assert (last.pause.used, made.snapshot()["output"][0]["status"]) == (USAGE, "in_progress")


def test_call_that_cannot_run_ends_as_failed_and_incomplete() -> None:
    made = machine(Begin(), OPEN_CALL, Append("{"), Close("incomplete"))
    log = log_of(made.take())
    assert [event["type"] for event in log][-3:] == [
        "response.mcp_call_arguments.done",
        "response.mcp_call.failed",
        "response.output_item.done",
    ]
    assert (log[-1]["item"]["status"], log[-1]["item"]["arguments"]) == ("incomplete", "{")


@pytest.mark.parametrize(("error", "end"), [(None, "completed"), ("No answer.", "failed")])
def test_list_of_tools_is_announced_in_one_batch(error: str | None, end: str) -> None:
    tools = [SEARCH | {"description": "x" * (2 * BATCH_BYTES_MAX)}]
    item = listed(*tools, error=error)
    made = machine(Begin(), Announce(item))
    (batch,) = made.take_whole()
    log = log_of([batch])
    assert [event["type"] for event in log[2:]] == [
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        f"response.mcp_list_tools.{end}",
        "response.output_item.done",
    ]
    assert (log[2]["item"]["tools"], log[-1]["item"]) == ([], item)
    assert fold(log) == made.snapshot()


def test_error_and_failed_events_are_in_the_last_batch() -> None:
    made = machine(Begin(), OpenNext(), Append("x"))
    before = made.take()
    made.send(FAIL)
    (last,) = made.take()
    assert (last.first_sequence, last.final) == (before[-1].first_sequence + before[-1].count, made.final)
    assert [event["type"] for event in events.decode(last.frames)] == [events.ERROR, events.FAILED]
    assert made.take() == []


@pytest.mark.parametrize("ending", [COMPLETE, INCOMPLETE])
def test_terminal_event_is_alone_in_the_last_batch_with_the_final(ending: Input) -> None:
    made = machine(Begin(), ending)
    *before, last = made.take()
    assert last.count == 1
    assert last.final == made.final is not None
    assert all(batch.final is None for batch in before)
    assert events.decode(last.frames)[0]["type"] in events.TERMINAL
    assert made.take() == []


def test_batches_stay_within_their_limits_and_count_their_events() -> None:
    made = machine(Begin(), OpenNext())
    for _ in range(3 * BATCH_EVENTS_MAX):
        made.send(Append("x"))
    for _ in range(3):
        made.send(Append("y" * BATCH_BYTES_MAX))
    batches = made.take()
    expected = 0
    for batch in batches:
        assert batch.first_sequence == expected
        assert batch.count == len(events.decode(batch.frames)) <= BATCH_EVENTS_MAX
        assert batch.count == 1 or len(batch.frames) <= BATCH_BYTES_MAX
        expected += batch.count
    assert expected == 4 + 3 * BATCH_EVENTS_MAX + 3
    assert len(batches) < 12


def test_consecutive_items_have_their_own_ids_and_indexes() -> None:
    made = machine(Begin(), OpenNext(), Append("a"), Close(), OpenNext(), Append("b"), Close(), COMPLETE)
    log = log_of(made.take())
    deltas = [(event["output_index"], event["item_id"]) for event in log if "delta" in event]
    first, second = log[-1]["response"]["output"]
    assert deltas == [(0, first["id"]), (1, second["id"])]
    assert first["id"] != second["id"]
    assert first["id"].startswith("msg_")


def test_usage_is_shown_in_the_response() -> None:
    made = machine()
    for each in (Begin(), COMPLETE):
        made.send(each)
    usage = made.snapshot()["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (7, 5, 12)
    assert usage["input_tokens_details"]["cached_tokens"] == 2
    assert usage["output_tokens_details"]["reasoning_tokens"] == 3
