from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.client_items import CALL_TYPES, OUTPUT_TYPES, ClientItem, is_client_item

ADAPTER: TypeAdapter[Any] = TypeAdapter(ClientItem)
SHELL: Object = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
PATCH: Object = {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}}
COMPUTER: Object = {"type": "computer_call", "call_id": "c", "actions": [{"type": "wait"}]}
SEARCH: Object = {"type": "tool_search_call", "execution": "client", "call_id": "c", "arguments": {"query": "x"}}
FOUND: Object = {"type": "tool_search_output", "execution": "client", "call_id": "c", "tools": []}
SCREEN: Object = {"type": "computer_screenshot", "image_url": "data:image/png;base64,"}


@pytest.mark.parametrize(
    "item",
    [
        SHELL,
        {"type": "shell_call_output", "call_id": "c", "output": []},
        {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"], "env": {"A": "b"}}},
        {"type": "local_shell_call_output", "id": "c", "output": "x"},
        PATCH,
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed"},
        COMPUTER,
        COMPUTER | {"actions": None, "action": {"type": "drag", "path": [{"x": 1, "y": 2}]}},
        {"type": "computer_call_output", "call_id": "c", "output": SCREEN},
        SEARCH,
        FOUND | {"id": "i", "status": "completed"},
    ],
)
def test_calls_and_outputs_of_client_tools_are_accepted(item: Object) -> None:
    assert ADAPTER.validate_python(item).type == item["type"]
    assert is_client_item(item)


@pytest.mark.parametrize(
    "item",
    [
        SHELL | {"action": {"commands": []}},
        SHELL | {"action": {"commands": ["ls"], "sudo": True}},
        PATCH | {"operation": {"type": "create_file", "path": "a"}},
        PATCH | {"operation": {"type": "delete_file", "path": "a", "diff": "x"}},
        COMPUTER | {"actions": [{"type": "scroll", "x": 1, "y": 1}]},
        {"type": "computer_call_output", "call_id": "c", "output": SCREEN | {"file_id": "file_1"}},
        {"type": "shell_call_output", "call_id": "c" * 257, "output": []},
        SEARCH | {"arguments": "{}"},
        SEARCH | {"call_id": None},
        SEARCH | {"execution": "both"},
        FOUND | {"tools": [{}] * (limits.TOOLS_ITEMS_MAX + 1)},
    ],
)
def test_an_invalid_call_or_output_of_a_client_tool_is_rejected(item: Object) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(item)


def test_function_call_is_not_among_the_ten_client_item_types() -> None:
    assert len({*CALL_TYPES, *OUTPUT_TYPES}) == 10
    assert not is_client_item({"type": "function_call"})


@pytest.mark.parametrize("execution", [{"execution": None}, {"execution": "server"}])
@pytest.mark.parametrize("item", [SEARCH, FOUND])
def test_search_that_a_server_ran_is_no_client_item(item: Object, execution: Object) -> None:
    assert not is_client_item(item | execution)
