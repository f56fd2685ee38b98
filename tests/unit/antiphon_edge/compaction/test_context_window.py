from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Turn
from antiphon_edge.compaction import context_window

USER: Object = {"id": "u", "type": "message", "role": "user", "content": []}
SYSTEM: Object = {"id": "d", "type": "message", "role": "developer", "content": []}
SHORT: Object = {"id": "s", "role": "user", "content": "a message may have no type"}
ASSISTANT: Object = {"id": "a", "type": "message", "role": "assistant", "content": []}
CALL: Object = {"id": "c", "type": "function_call", "call_id": "c"}
RESULT: Object = {"id": "r", "type": "function_call_output", "call_id": "c"}
THOUGHT: Object = {"id": "t", "type": "reasoning"}
TOOLS: Object = {"id": "g", "type": "additional_tools", "tools": []}
SEARCH: Object = {"id": "f", "type": "tool_search_call", "call_id": "f", "execution": "client", "arguments": {}}
FOUND: Object = {"id": "o", "type": "tool_search_output", "call_id": "f", "execution": "client", "tools": []}
FIRST: Object = {"id": "x", "type": "compaction", "encrypted_content": "", "summary": []}
SECOND: Object = FIRST | {"id": "y"}


def turn(history: list[Object], given: list[Object], **request: object) -> Turn:
    return Turn("resp_1", 0, dumps({"model": "m"} | request), dumps(history), dumps(given))


def test_turn_without_a_compaction_is_returned_unparsed() -> None:
    unread = Turn("resp_1", 0, b"{}", history=b"not", input=b"JSON")
    assert context_window.visible_turn(unread) is unread


def test_assistant_items_before_a_compaction_are_not_shown() -> None:
    everything = [SYSTEM, USER, SHORT, THOUGHT, CALL, SEARCH, RESULT, FOUND, ASSISTANT, TOOLS]
    remaining = [SYSTEM, USER, SHORT, SEARCH, FOUND, TOOLS]
    shown = context_window.visible_turn(turn([*everything, FIRST, ASSISTANT], [USER]))
    assert loads(shown.history) == [*remaining, FIRST, ASSISTANT]
    assert loads(shown.input) == [USER]
    assert context_window.visible_items(everything) == remaining


def test_last_compaction_decides_also_when_it_is_in_the_input() -> None:
    shown = context_window.visible_turn(turn([USER, FIRST, ASSISTANT], [CALL, RESULT, SECOND, USER]))
    assert loads(shown.history) == [USER]
    assert loads(shown.input) == [SECOND, USER]


def test_showing_an_already_shown_turn_changes_nothing() -> None:
    once = context_window.visible_turn(turn([USER, ASSISTANT, FIRST], [USER]))
    assert context_window.visible_turn(once) == once


def test_configuration_updates_change_the_settings_in_their_order() -> None:
    first = {"type": "configuration_update", "reasoning": {"effort": "high"}, "text": {"format": {"type": "text"}}}
    second = {"type": "configuration_update", "reasoning": {"effort": "low"}, "text": None}
    asked = turn([first, ASSISTANT], [second, USER], reasoning={"summary": "auto"}, text={"verbosity": "low"})
    assert loads(context_window.visible_turn(asked).request) == {
        "model": "m",
        "reasoning": {"summary": "auto", "effort": "low"},
        "text": {"verbosity": "low", "format": {"type": "text"}},
    }


def test_configuration_updates_survive_a_compaction() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "high"}}
    shown = context_window.visible_turn(turn([update, ASSISTANT, FIRST], [USER]))
    assert loads(shown.request)["reasoning"] == {"effort": "high"}
    assert loads(shown.history) == [update, FIRST]


def test_context_without_assistant_items_cannot_shrink() -> None:
    assert not context_window.can_shrink(turn([SYSTEM, USER, SHORT, TOOLS, FIRST], [USER]))
    for item in (ASSISTANT, CALL, RESULT, THOUGHT):
        assert context_window.can_shrink(turn([USER, FIRST], [item, USER]))


@pytest.mark.parametrize("items", [[], [TOOLS], [{"type": "compaction_trigger"}]])
def test_compaction_of_a_context_without_messages_is_rejected(items: list[Object]) -> None:
    with pytest.raises(InvalidRequest) as raised:
        context_window.require_compactable(items)
    assert (raised.value.field, raised.value.code) == ("input", "empty_array")
    context_window.require_compactable([*items, USER])


@pytest.mark.parametrize("before", [0, 1])
def test_an_asynchronous_call_goes_with_its_output_whichever_turn_brought_that(before: int) -> None:
    pending = CALL | {"async": True}
    items = [USER, pending, RESULT, FIRST, USER]
    shown = context_window.visible_turn(turn(items[: 2 + before], items[2 + before :]))
    assert loads(shown.history) + loads(shown.input) == [USER, FIRST, USER]


def test_an_asynchronous_call_stays_until_its_output_comes() -> None:
    pending = CALL | {"async": True}
    shown = context_window.visible_turn(turn([USER, pending, FIRST], [RESULT]))
    assert loads(shown.history) + loads(shown.input) == [USER, pending, FIRST, RESULT]


def test_a_compaction_cannot_shrink_a_call_that_waits_for_its_output() -> None:
    pending = CALL | {"async": True}
    assert not context_window.can_shrink(turn([USER, pending, FIRST], [USER]))
    assert context_window.can_shrink(turn([USER, pending, FIRST], [RESULT, USER]))
