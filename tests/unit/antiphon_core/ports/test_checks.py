"""Checks of arguments and of the ports' dataclasses. `antiphon_store.testing` tests the fields that errors name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports import checks
from antiphon_core.ports.event_logs import TOKEN_ID_MAX, Checkpoint, EventAppend
from antiphon_core.ports.jobs import JobDraft, JobFence
from antiphon_core.ports.prompts import PromptContent, PromptVersion
from antiphon_core.ports.store import Fence, Record, Status, TurnCommit

PROMPT = "pmpt_" + "0" * 48
RECORD = Record(new_response_id(RandomIds()), Status.COMPLETED, b"{}")


def check(hint: Any, value: Any, field: str = "field") -> None:
    found = checks.check_of(hint)
    assert found is not None
    found(value, field)


def rejected_field(hint: Any, value: Any) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        check(hint, value)
    return caught.value.field


def test_a_range_includes_both_ends() -> None:
    for value in (1, 5):
        checks.check_range(value, "n", 1, 5)
    for value, code in ((0, "integer_below_min_value"), (6, "integer_above_max_value")):
        with pytest.raises(InvalidRequest, match="'n' must be from 1 to 5, but is") as caught:
            checks.check_range(value, "n", 1, 5)
        assert caught.value.code == code


ACCEPTED = [
    (checks.Tenant, ["default", "a", "team/blue-7", "!~", "x" * 128]),
    (checks.Holder, ["ü" * 127]),
    (checks.PromptId, [PROMPT]),
    (checks.QueueName, ["Q.q_-" + "x" * (limits.QUEUE_NAME_CHARS_MAX - 5)]),
    (checks.Reason, ["", "ü" * limits.JOB_REASON_CHARS_MAX]),
    (PromptVersion, [1, limits.PROMPT_VERSIONS_ITEMS_MAX]),
    (PromptContent, [b" " * limits.PROMPT_CONTENT_BYTES_MAX]),
]
REJECTED = [
    (checks.Tenant, ["", "a b", "a\n", "ä", "x" * 129]),
    (checks.Holder, ["", "ü" * 128, "\ud800"]),
    (checks.PromptId, ["", "pmpt_1", "conv_" + "0" * 48, "pmpt_" + "A" * 48, PROMPT + "\n"]),
    (checks.Reason, ["x" * (limits.JOB_REASON_CHARS_MAX + 1), "\ud800"]),
    (PromptVersion, [0, -1, limits.PROMPT_VERSIONS_ITEMS_MAX + 1]),
    (PromptContent, [b""]),
]


@pytest.mark.parametrize(("hint", "values"), ACCEPTED)
def test_valid_values_pass(hint: Any, values: Sequence[Any]) -> None:
    for value in values:
        check(hint, value)


@pytest.mark.parametrize(("hint", "values"), REJECTED)
def test_invalid_values_are_rejected_with_the_name_of_their_field(hint: Any, values: Sequence[Any]) -> None:
    for value in values:
        assert rejected_field(hint, value) == "field"


@dataclass(frozen=True)
class Part:
    name: checks.QueueName
    counts: Annotated[Sequence[Annotated[int, checks.within(0, 9)]], checks.count_within(1, 2)] = (1,)
    other: checks.Tenant | None = None
    free: str = ""

    def check(self, field: str) -> None:
        if self.free == self.name:
            raise checks.invalid(checks.part(field, "free"), "Both are the same.")


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (Part(""), "field.name"),
        (Part("a", ()), "field.counts"),
        (Part("a", (1, 2, 3)), "field.counts"),
        (Part("a", (1, 10)), "field.counts[1]"),
        (Part("a", other=""), "field.other"),
        (Part("a", free="a"), "field.free"),
    ],
)
def test_members_and_elements_are_checked_and_named_by_their_path(part: Part, field: str) -> None:
    assert rejected_field(Part, part) == field
    assert rejected_field(Part | None, part) == field


def test_members_that_are_none_and_types_without_annotations_are_not_checked() -> None:
    check(Part, Part("a"))
    assert [checks.check_of(each) for each in (str, bool, Status, Sequence[str], Status | None)] == [None] * 5


def test_a_record_is_rejected_only_above_the_size_limit() -> None:
    body = b" " * (limits.RECORD_BYTES_MAX - 4)
    check(Record, replace(RECORD, body=body))
    with pytest.raises(TooLarge):
        check(Record, replace(RECORD, body=body + b" "))


def test_a_session_of_another_tree_than_its_record_is_rejected() -> None:
    tag = RECORD.id.removeprefix("resp_")[:16]
    check(Record, replace(RECORD, session_id="conv_" + tag + "0" * 32))
    check(Record, replace(RECORD, session_id="any-other-name"))
    assert rejected_field(Record, replace(RECORD, session_id="conv_" + "0" * 48)) == "field.session_id"


def test_a_commit_with_the_fence_of_another_session_is_rejected() -> None:
    record = replace(RECORD, session_id="s")
    check(TurnCommit, TurnCommit(record, Fence("s", 1)))
    assert rejected_field(TurnCommit, TurnCommit(record, Fence("other", 1))) == "fence.session_id"


def test_an_append_just_within_bounds_is_allowed() -> None:
    most = limits.APPEND_EVENTS_MAX
    full = Checkpoint(2**62, (TOKEN_ID_MAX,) * limits.CHECKPOINT_ITEMS_MAX)
    check(EventAppend, EventAppend(RECORD.id, 2**63 - 1 - most, most, b":\n\n" * most, full, terminal=True))
    frames = b"x" * (limits.APPEND_BYTES_MAX - 2) + b"\n\n"
    check(EventAppend, EventAppend(RECORD.id, 0, 1, frames, Checkpoint(0, ())))


def test_a_job_just_within_bounds_is_allowed_and_its_fence_names_it() -> None:
    payload = bytes(limits.JOB_PAYLOAD_BYTES_MAX)
    check(JobDraft, JobDraft(RECORD.id, "q", payload, limits.JOB_ATTEMPTS_ITEMS_MAX, limits.JOB_DELAY_MS_MAX))
    check(JobFence, Fence(RECORD.id, 1))
    assert rejected_field(JobFence, Fence("s", 1)) == "field.session_id"
