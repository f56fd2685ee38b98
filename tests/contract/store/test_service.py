"""The port suites on StoreService, over every backend."""

from __future__ import annotations

import pytest

from antiphon_store import testing
from antiphon_store.testing import Subject


@pytest.fixture
def subject(local: Subject) -> Subject:
    return local


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
