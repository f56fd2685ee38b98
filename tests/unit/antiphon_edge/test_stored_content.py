from __future__ import annotations

from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.errors import DataDamaged
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.prompts import Prompt
from antiphon_core.ports.store import Record, Status
from antiphon_edge import stored_content

ENDED = response.skeleton({"model": "m"}, response_id="r", created_at=1) | {"status": "completed"}


def record(status: Status = Status.COMPLETED, body: bytes = b'{"status":"queued"}', items: bytes = b"[]") -> Record:
    return Record("r", status, body, b"[]", items)


def batch(*told: Any, first: int = 3, terminal: bool = False) -> EventBatch:
    frames = b"".join(map(events.encode, told))
    return EventBatch(first, len(told), frames, terminal=terminal)


def test_an_unfinished_response_has_the_status_of_its_record() -> None:
    assert loads(stored_content.response_json(record(Status.IN_PROGRESS))) == {"status": "in_progress", "output": []}
    assert stored_content.response_json(record()) == b'{"status":"queued","output":[]}'


@pytest.mark.parametrize(("body", "items"), [(b"", b"[]"), (b"[]", b"[]"), (b"{}", b"{}"), (b"{}", b"[5]")])
def test_a_response_of_another_form_is_damage(body: bytes, items: bytes) -> None:
    with pytest.raises(DataDamaged, match="'r'"):
        stored_content.response_json(record(body=body, items=items))


def test_a_batch_of_a_log_is_passed_on_with_its_bytes_and_its_end() -> None:
    unknown = {"type": "response.future", "sequence_number": 3}
    last = {"type": events.COMPLETED, "sequence_number": 4, "response": ENDED}
    stored = batch(unknown, last, terminal=True)
    found = stored_content.batch_of("r", stored)
    assert found.frames is stored.frames
    assert found.final is not None
    assert found.final.status is Status.COMPLETED


@pytest.mark.parametrize(
    "stored",
    [
        batch({"type": "x", "sequence_number": 4}),
        batch({"type": "x", "sequence_number": 3}, {"type": "x", "sequence_number": 5}),
        EventBatch(3, 1, b"event: x\ndata: 5\n\n"),
        EventBatch(3, 1, events.encode({"type": "x", "sequence_number": 3}) + b": comment\n\n"),
        EventBatch(3, 1, b'event: x\ndata: {"type":5,"sequence_number":3}\n\n'),
        batch({"type": "x", "sequence_number": 3}, terminal=True),
        batch({"type": events.FAILED, "sequence_number": 3, "response": ENDED | {"status": "failed"}}, terminal=True),
        batch({"type": events.COMPLETED, "sequence_number": 3, "response": ENDED | {"output": [5]}}, terminal=True),
    ],
)
def test_a_batch_that_no_writer_appends_is_damage(stored: EventBatch) -> None:
    with pytest.raises(DataDamaged, match="'r'"):
        stored_content.batch_of("r", stored)


@pytest.mark.parametrize(
    "content",
    [
        {"instructions": 5},
        {"input": 5},
        {"input": [{"role": "user"}]},
        {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
        {"input": [{"role": 5, "content": "x"}]},
    ],
)
def test_a_prompt_of_another_form_is_damage(content: Any) -> None:
    with pytest.raises(DataDamaged, match="'p'"):
        stored_content.prompt_of(Prompt("p", 1, 1, 0, dumps(content)))


@pytest.mark.parametrize("metadata", [b"", b"[]", b'{"a":5}'])
def test_metadata_of_another_form_is_damage(metadata: bytes) -> None:
    with pytest.raises(DataDamaged, match="'c'"):
        stored_content.metadata_of(Conversation("c", metadata, 0, 1))
