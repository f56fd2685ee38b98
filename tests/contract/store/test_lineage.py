"""The suites of lineage, on StoreService and on StoreClient over gRPC, over every backend that has them."""

from __future__ import annotations

import pytest

from antiphon_store import testing
from antiphon_store.testing import Subject
from tests.contract.store.conftest import Pair

pytestmark = pytest.mark.parametrize("backends", ["memory", "sqlite", "postgres"], indirect=True)


@pytest.fixture(params=["local", "remote"])
def subject(request: pytest.FixtureRequest, backends: Pair) -> Subject:
    subject: Subject = request.getfixturevalue(request.param)
    return subject


class TestArgument(testing.LineageArgumentSuite):
    pass


class TestBatch(testing.LineageBatchSuite):
    pass


class TestFork(testing.LineageForkSuite):
    pass


class TestItem(testing.LineageItemSuite):
    pass


class TestList(testing.LineageListSuite):
    pass


class TestRace(testing.LineageRaceSuite):
    pass


class TestStatus(testing.LineageStatusSuite):
    pass


class TestTree(testing.LineageTreeSuite):
    pass
