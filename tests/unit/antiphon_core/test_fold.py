from __future__ import annotations

from copy import deepcopy

import pytest

from antiphon_core import events
from antiphon_core.errors import EngineFault
from antiphon_core.fold import Fold, fold
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import FOLD_PENDING_BYTES_MAX
from antiphon_core.telemetry import unknown_events

PART: Object = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
ITEM: Object = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}


def log_of(*deltas: str) -> list[Object]:
    """The log of a response in progress with these deltas."""
    bodies: list[Object] = [
        {"type": events.CREATED, "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": events.IN_PROGRESS, "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": events.OUTPUT_ITEM_ADDED, "output_index": 0, "item": ITEM},
        {"type": events.CONTENT_PART_ADDED, "output_index": 0, "content_index": 0, "part": PART},
        *({"type": events.OUTPUT_TEXT_DELTA, "output_index": 0, "content_index": 0, "delta": d} for d in deltas),
    ]
    return [body | {"sequence_number": number} for number, body in enumerate(deepcopy(bodies))]


def text(response: Object) -> str:
    return str(response["output"][0]["content"][0]["text"])


def test_deltas_add_up() -> None:
    response = fold(log_of("The ", "capital"))
    assert text(response) == "The capital"
    assert response["output"][0]["status"] == "in_progress"


def test_the_log_is_left_unchanged() -> None:
    log = log_of("a", "b")
    before = deepcopy(log)
    fold(log)
    assert log == before


def test_deltas_to_different_parts_stay_apart() -> None:
    log = log_of("first")
    log.append({"type": events.CONTENT_PART_ADDED, "output_index": 0, "content_index": 1, "part": PART})
    log.append({"type": events.OUTPUT_TEXT_DELTA, "output_index": 0, "content_index": 1, "delta": "second"})
    log.append({"type": events.OUTPUT_TEXT_DELTA, "output_index": 0, "content_index": 0, "delta": "!"})
    assert [part["text"] for part in fold(log)["output"][0]["content"]] == ["first!", "second"]


def test_done_events_replace_what_deltas_built() -> None:
    log = log_of("almost")
    done = ITEM | {"status": "completed", "content": [PART | {"text": "exactly"}]}
    log.append({"type": events.OUTPUT_ITEM_DONE, "output_index": 0, "item": done})
    assert fold(log)["output"] == [done]


def test_the_terminal_event_is_the_response() -> None:
    final = {"id": "resp_1", "status": "completed", "output": [ITEM]}
    assert fold([*log_of("x"), {"type": events.COMPLETED, "response": final}]) == final


def test_errors_and_unknown_events_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(unknown_events, "note", noted.append)
    log = log_of("x")
    new = {"type": "response.something_new"}
    assert fold([*log, new, events.error_event(9, EngineFault("m"))]) == fold(log)
    assert noted == ["response.something_new"]


def test_a_fold_in_progress_equals_the_fold_of_the_log_at_every_cut() -> None:
    log = log_of(*"chunk by chunk")
    for cut in range(1, len(log) + 1):
        passing = Fold()
        for event in log[:cut]:
            passing.feed(first_sequence=event["sequence_number"], count=1, frames=events.encode(event))
        assert passing.response() == fold(log[:cut])
        assert passing.next_sequence == cut


def kept_bytes(passing: Fold) -> int:
    """The bytes of the frames that are not folded yet."""
    return passing._runs_bytes + len(passing._rests)


def test_a_long_stream_is_folded_as_it_passes() -> None:
    passing = Fold()
    for event in log_of(*["word "] * 5_000):
        passing.feed(first_sequence=event["sequence_number"], count=1, frames=events.encode(event))
    assert kept_bytes(passing) < 100_000
    assert text(passing.response()) == "word " * 5_000


def scored(delta: str, *tokens: str) -> Object:
    logprobs = [{"token": token, "logprob": -0.5, "bytes": [], "top_logprobs": []} for token in tokens]
    return {"delta": delta, "logprobs": logprobs}


def test_log_probabilities_of_deltas_add_up_in_both_kinds_of_fold() -> None:
    deltas: list[Object] = [scored("ab", "a", "b"), scored(""), {"delta": "c"}, scored("d", "d")]
    log = log_of("", "", "", "")
    log[4:] = [event | delta for event, delta in zip(log[4:], deltas, strict=True)]
    before = deepcopy(log)
    (part,) = fold(log)["output"][0]["content"]
    assert (part["text"], [each["token"] for each in part["logprobs"]]) == ("abcd", ["a", "b", "d"])
    passing = Fold()
    for event in log:
        passing.feed(first_sequence=event["sequence_number"], count=1, frames=events.encode(event))
        assert passing.response() == fold(log[: event["sequence_number"] + 1])
    assert log == before


def test_size_of_a_fold_is_that_of_its_events_whether_they_are_parsed_or_not() -> None:
    folding = Fold()
    for number, event in enumerate(log_of("x" * 500)):
        numbered = {"type": event["type"], "sequence_number": number} | event
        folding.feed(first_sequence=number, count=1, frames=events.encode(numbered))
    unparsed_bytes = folding.size_bytes
    folding.response()
    assert 500 < folding.size_bytes == unparsed_bytes
    whole = events.encode({"type": events.COMPLETED, "sequence_number": 9, "response": {"output": []}})
    folding.feed(first_sequence=9, count=1, frames=whole)
    assert folding.size_bytes == len(whole)


def test_an_event_that_brings_the_whole_response_replaces_those_before_it() -> None:
    log = log_of("a")
    replaced = {"id": "resp_1", "status": "queued", "output": [], "instructions": "x" * 100_000}
    log[0]["response"] = log[1]["response"] = replaced
    passing = Fold()
    passing.feed(first_sequence=0, count=2, frames=b"not JSON at all")
    for event in log[1:]:
        passing.feed(first_sequence=event["sequence_number"], count=1, frames=events.encode(event))
    assert kept_bytes(passing) < 1_000
    assert passing.response() == fold(log)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_batch_may_have_any_number_of_events(count: int) -> None:
    log = log_of("a", "b")
    passing = Fold()
    for first in range(0, len(log), count):
        batch = log[first : first + count]
        passing.feed(first_sequence=first, count=len(batch), frames=b"".join(map(events.encode, batch)))
    assert passing.response() == fold(log)


def numbered(event: Object, number: int) -> Object:
    """The event in the machine's order: the members that name its part, its number, then the others."""
    members = {name: value for name, value in event.items() if name not in ("sequence_number", "delta", "logprobs")}
    rest = {name: event[name] for name in ("delta", "logprobs") if name in event}
    return members | {"sequence_number": number} | rest


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("words", [5, 2_000])
def test_deltas_with_a_common_head_are_kept_compactly_and_folded_correctly(count: int, words: int) -> None:
    log = [numbered(event, number) for number, event in enumerate(log_of(*['"}\n\n{,\\'] * words))]
    log[-3] |= {"logprobs": [{"token": "a"}]}
    log.insert(-2, {"type": events.KEEP_ALIVE, "sequence_number": 7})
    passing = Fold()
    for first in range(0, len(log), count):
        batch = log[first : first + count]
        passing.feed(first_sequence=first, count=len(batch), frames=b"".join(map(events.encode, batch)))
        assert kept_bytes(passing) < 20_000
    assert passing.response() == fold(log)


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_a_delta_is_kept_in_a_few_bytes_however_many_come_together(count: int) -> None:
    passing = Fold()
    log = [numbered(event, number) for number, event in enumerate(log_of(*["word "] * 200))]
    opening, deltas = log[:4], log[4:]
    for event in opening:
        passing.feed(first_sequence=event["sequence_number"], count=1, frames=events.encode(event))
    for first in range(0, len(deltas), count):
        batch = deltas[first : first + count]
        frames = b"".join(map(events.encode, batch))
        passing.feed(first_sequence=batch[0]["sequence_number"], count=len(batch), frames=frames)
    assert kept_bytes(passing) < 200 * 25
    assert passing.response() == fold(log)


def test_a_batch_with_another_head_in_its_middle_is_folded_whole() -> None:
    log = [numbered(event, number) for number, event in enumerate(log_of(*["word "] * 7))]
    log[-2] |= {"content_index": 1}
    log.insert(-3, {"type": events.CONTENT_PART_ADDED, "output_index": 0, "content_index": 1, "part": PART})
    log = [numbered(event, number) for number, event in enumerate(log)]
    passing = Fold()
    passing.feed(first_sequence=0, count=5, frames=b"".join(map(events.encode, log[:5])))
    passing.feed(first_sequence=5, count=len(log) - 5, frames=b"".join(map(events.encode, log[5:])))
    assert passing.response() == fold(log)


def test_a_nested_sequence_number_does_not_confuse_the_fold() -> None:
    log = [numbered(event, number) for number, event in enumerate(log_of("a", "b"))]
    for number in (-2, -1):
        log[number] = {"type": log[number]["type"], "about": {"sequence_number": 1}} | log[number]
    passing = Fold()
    for event in log:
        passing.feed(first_sequence=event["sequence_number"], count=1, frames=events.encode(event))
    assert passing.response() == fold(log)


@pytest.mark.parametrize("count", [1, 2])
def test_large_events_are_parsed_only_when_the_response_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    part = PART | {"text": "x" * FOLD_PENDING_BYTES_MAX}
    log = [
        *log_of("x"),
        {"type": events.CONTENT_PART_DONE, "sequence_number": 5, "output_index": 0, "content_index": 0, "part": part},
        {"type": events.OUTPUT_ITEM_DONE, "sequence_number": 6, "output_index": 0, "item": ITEM | {"content": [part]}},
    ]
    folding = Fold()
    folding.feed(first_sequence=0, count=5, frames=b"".join(map(events.encode, log[:5])))
    parsed: list[bytes] = []

    def noted(data: bytes) -> Object:
        parsed.append(data)
        event: Object = loads(data)
        return event

    monkeypatch.setattr("antiphon_core.fold.loads", noted)
    for first in range(5, 7, count):
        frames = b"".join(map(events.encode, log[first : first + count]))
        folding.feed(first_sequence=first, count=count, frames=frames)
    assert not [data for data in parsed if len(data) > FOLD_PENDING_BYTES_MAX]
    assert folding.response() == fold(log)
