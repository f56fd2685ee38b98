"""The suites of conversations, on StoreService and on StoreClient over gRPC, over every backend that has them."""

from __future__ import annotations

import pytest

from antiphon_store import testing
from antiphon_store.testing import Subject
from tests.contract.store.conftest import Pair

pytestmark = pytest.mark.parametrize("backends", ["memory", "sqlite"], indirect=True)


@pytest.fixture(params=["local", "remote"])
def subject(request: pytest.FixtureRequest, backends: Pair) -> Subject:
    subject: Subject = request.getfixturevalue(request.param)
    return subject


class TestConversation(testing.ConversationSuite):
    pass


class TestConversationItem(testing.ConversationItemSuite):
    pass


class TestConversationArgument(testing.ConversationArgumentSuite):
    pass
