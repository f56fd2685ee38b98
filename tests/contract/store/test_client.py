"""The port suites on StoreClient over a real gRPC server, over every backend: same answers, same errors."""

from __future__ import annotations

import pytest

from antiphon_store import testing
from antiphon_store.testing import Subject


@pytest.fixture
def subject(remote: Subject) -> Subject:
    return remote


class TestArgument(testing.ArgumentSuite):
    pass


class TestItems(testing.ItemsSuite):
    pass


class TestLease(testing.LeaseSuite):
    pass


class TestLineage(testing.LineageSuite):
    pass


class TestRace(testing.RaceSuite):
    pass


class TestRecord(testing.RecordSuite):
    pass


class TestRemoval(testing.RemovalSuite):
    pass


class TestReplacement(testing.ReplacementSuite):
    pass


class TestRetention(testing.RetentionSuite):
    pass


class TestTenancy(testing.TenancySuite):
    pass


class TestTurn(testing.TurnSuite):
    pass
