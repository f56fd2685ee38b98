from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome
from antiphon_core.ports.store import Fence
from antiphon_protos.antiphon.store import v1
from antiphon_store.jobs import wire
from tests.support.sent import sent

names = st.text("abc_", min_size=1, max_size=5)
numbers = st.integers(1, 2**31)
fences = st.builds(Fence, names, numbers)
jobs = st.builds(Job, names, names, st.binary(max_size=9), numbers, numbers, st.booleans(), fences, numbers)
drafts = st.builds(JobDraft, names, names, st.binary(max_size=9), numbers, numbers)


@given(jobs, drafts)
def test_values_survive_the_wire(job: Job, draft: JobDraft) -> None:
    message = wire.to_job(job)
    assert wire.from_job(sent(message)) == job
    request = wire.to_draft(draft)
    assert wire.from_draft(sent(request)) == draft


def test_absence_becomes_the_documented_default() -> None:
    assert wire.from_draft(v1.EnqueueJobRequest(id="j", queue="q")) == JobDraft("j", "q", b"", 3, 0)


def test_every_outcome_has_its_value() -> None:
    assert {wire.from_outcome(wire.to_outcome(outcome)) for outcome in JobOutcome} == set(JobOutcome)


@pytest.mark.parametrize(("number", "words"), [(0, "'outcome' is missing"), (9, "unknown value 9")])
def test_an_outcome_that_is_none_is_refused(number: int, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        wire.from_outcome(v1.JobOutcome(number))
    assert caught.value.field == "outcome"


def test_a_fence_belongs_to_the_job_that_is_named() -> None:
    assert wire.from_job_fence("j", v1.Fence(session_id="j", token=2)) == Fence("j", 2)
    for message, field in ((None, "fence"), (v1.Fence(session_id="k", token=2), "fence.session_id")):
        with pytest.raises(InvalidRequest) as caught:
            wire.from_job_fence("j", message)
        assert caught.value.field == field
