from __future__ import annotations

from functools import partial

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.turn import rejected_item

REFUSED = InvalidRequest("No.", field="input", code="unsupported_value")


def refusing(text: str, conversation: Conversation) -> None:
    if any(message.text == text for message in conversation.messages):
        raise REFUSED


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_error_names_the_first_rejected_item(length: int) -> None:
    conversation = Conversation(tuple(Message("user", (str(place),)) for place in range(length)))
    for place in range(length):
        error = rejected_item.name_item(REFUSED, conversation, partial(refusing, str(place)), "input[{}]".format)
        assert (error.field, error.code) == (f"input[{place}]", "unsupported_value")
        assert error.message == f"'input[{place}]': No."


def test_error_with_an_exact_field_stays_unchanged() -> None:
    named = InvalidRequest("No.", field="tools[0]")
    assert rejected_item.name_item(named, Conversation((Message("user"),)), lambda _: None, str) is named
