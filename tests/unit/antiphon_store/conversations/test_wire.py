from __future__ import annotations

import pytest

from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import ItemPage
from antiphon_store.conversations import wire


def test_a_conversation_survives_the_journey() -> None:
    conversation = Conversation("conv_1", b'{"a":"1"}', created_at_ms=5, version=2)
    assert wire.from_conversation(wire.to_conversation(conversation)) == conversation


@pytest.mark.parametrize("page", [ItemPage(b"[]", None, None, False), ItemPage(b'[{"id":"a"}]', "a", "a", True)])
def test_a_page_survives_the_journey(page: ItemPage) -> None:
    assert wire.from_item_page(wire.to_item_page(page)) == page
