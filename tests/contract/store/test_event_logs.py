"""The suites of event logs, on StoreService and on StoreClient over gRPC, over every backend."""

from __future__ import annotations

import pytest

from antiphon_store import testing
from antiphon_store.testing import Subject
from tests.contract.store.conftest import Pair

BACKENDS = ["memory", "sqlite", "postgres", "redis", "redis cluster"]
pytestmark = pytest.mark.parametrize("backends", BACKENDS, indirect=True)


@pytest.fixture(params=["local", "remote"])
def subject(request: pytest.FixtureRequest, backends: Pair) -> Subject:
    subject: Subject = request.getfixturevalue(request.param)
    return subject


class TestEventLog(testing.EventLogSuite):
    pass


class TestEventLogAppend(testing.EventLogAppendSuite):
    pass


class TestEventLogFollow(testing.EventLogFollowSuite):
    pass


class TestEventLogArgument(testing.EventLogArgumentSuite):
    pass
