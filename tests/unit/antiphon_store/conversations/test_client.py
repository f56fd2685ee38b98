"""What the client refuses by itself; that it works: tests/contract/store/test_suites.py."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_store.conversations.client import ConversationCalls
from antiphon_store.testing.conversation_arguments import CULPRITS
from antiphon_store.testing.conversations import Call


class Silent(ConversationCalls):
    async def _call(self, name: str, tenant: str, request: Any) -> Any:
        raise AssertionError(f"{name} was sent")


@pytest.mark.parametrize(
    ("field", "attempt"),
    [(field, attempt) for field, attempt in CULPRITS if not field.startswith(("metadata", "items"))],
)
async def test_what_needs_no_look_into_json_is_not_sent(field: str, attempt: Call) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await attempt(Silent(), "t")
    assert caught.value.field == field
