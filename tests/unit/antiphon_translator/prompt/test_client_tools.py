from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from antiphon_core.request.tools import CLIENT_RUN
from antiphon_translator.prompt.client_tools import BY_CALL_TYPE, CLIENT_TOOLS, OUTPUTS

ARGUMENTS: dict[str, Object] = {
    "shell": {"commands": ["ls"], "timeout_ms": 5},
    "local_shell": {"command": ["ls"], "working_directory": "/"},
    "apply_patch": {"type": "create_file", "path": "a", "diff": "+x"},
    "computer": {"actions": [{"type": "keypress", "keys": ["a"]}, {"type": "wait"}]},
    "tool_search": {"goal": {"any": [1]}, "limit": None},
}


@pytest.mark.parametrize("name", CLIENT_RUN)
def test_arguments_of_a_client_tool_survive_their_item(name: str) -> None:
    tool = CLIENT_TOOLS[name]
    members = tool.members(ARGUMENTS[name])
    assert members is not None
    assert tool.arguments({"type": tool.call_type, **members}) == ARGUMENTS[name]
    assert BY_CALL_TYPE[tool.call_type] is tool


@pytest.mark.parametrize("name", sorted({*CLIENT_RUN} - {"tool_search"}))
@pytest.mark.parametrize("arguments", [None, {}, {"commands": "ls", "command": "ls", "actions": {}, "path": 1}])
def test_invalid_arguments_of_a_client_tool_make_an_empty_item(name: str, arguments: Object | None) -> None:
    tool = CLIENT_TOOLS[name]
    assert tool.members(arguments) is None
    assert set(tool.blank_members()) == {tool.member, *tool.others}


def test_any_object_is_valid_as_the_arguments_of_a_search() -> None:
    tool = CLIENT_TOOLS["tool_search"]
    assert tool.members({}) == {"arguments": {}, "execution": "client"}
    assert tool.members(None) is None
    assert tool.blank_members() == {"arguments": {}, "execution": "client"}


def test_a_single_action_is_shown_as_a_list_of_one() -> None:
    item: Object = {"type": "computer_call", "call_id": "c", "action": {"type": "wait"}}
    assert CLIENT_TOOLS["computer"].arguments(item) == {"actions": [{"type": "wait"}]}


def test_outputs_of_client_tools_are_shown_as_text_or_image() -> None:
    assert OUTPUTS["shell_call_output"]({"output": [{"stdout": "a"}]}) == ['[{"stdout":"a"}]']
    assert OUTPUTS["local_shell_call_output"]({"output": "a"}) == ["a"]
    assert OUTPUTS["apply_patch_call_output"]({"status": "failed"}) == ["failed"]
    assert OUTPUTS["apply_patch_call_output"]({"status": "completed", "output": "Done."}) == ["Done."]
    listed: Object = {"tools": [{"type": "namespace", "name": "n", "tools": [{"name": "f"}]}, {"type": "shell"}]}
    assert OUTPUTS["tool_search_output"](listed) == ['{"tools":["n__f","shell"]}']
    assert OUTPUTS["tool_search_output"]({"tools": []}) == ['{"tools":[]}']
    shown = OUTPUTS["computer_call_output"]({"output": {"type": "computer_screenshot", "image_url": "u"}})
    assert shown == [{"type": "input_image", "image_url": "u"}]
