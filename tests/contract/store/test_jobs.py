"""The suites of jobs, on StoreService and on StoreClient over gRPC, over every backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store import testing
from antiphon_store.backends.base import Backend
from antiphon_store.testing import Subject
from tests.contract.store.conftest import Pair, elapse

pytestmark = pytest.mark.parametrize("backends", ["memory", "sqlite", "postgres"], indirect=True)


@pytest.fixture(params=["local", "remote"])
def subject(request: pytest.FixtureRequest, backends: Pair) -> Subject:
    subject: Subject = request.getfixturevalue(request.param)
    return subject


class TestJob(testing.JobSuite):
    pass


class TestJobLease(testing.JobLeaseSuite):
    pass


class TestJobCancel(testing.JobCancelSuite):
    pass


class TestJobArgument(testing.JobArgumentSuite):
    pass


class TestJobState(testing.JobStateSuite):
    @pytest.fixture
    def backend(self, backends: Pair) -> Backend:
        return backends[0]

    @pytest.fixture
    def elapse(self, clock: ManualClock) -> Callable[[int], Awaitable[None]]:
        return elapse(clock)
