"""Tools that OpenAI defines and the client runs: `shell`, `local_shell`, `apply_patch`, `computer` and `tool_search`.

Models know functions only. Each of these tools is shown to the model as a function whose parameters are those of its
call item. A call of the function becomes that item, and such items of the history become calls and results:

    tool            function        call item             its member     output item
    shell           shell           shell_call            action         shell_call_output
    local_shell     local_shell     local_shell_call      action         local_shell_call_output
    apply_patch     apply_patch     apply_patch_call      operation      apply_patch_call_output
    computer        computer        computer_call         actions        computer_call_output
    tool_search     tool_search     tool_search_call      arguments      tool_search_output

`tool_search` has the parameters that the request defines for it. Its output lists tools, which later turns offer
(tools.py); the model is shown their names.

If the arguments do not have the form of the item, the item is empty and its status is `incomplete`, so that no client
runs half of a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from antiphon_core.jsons import Object, dumps
from antiphon_core.request.client_items import ApplyPatchOperation, ComputerActions, LocalShellAction, ShellAction
from antiphon_translator.prompt.tool_names import shown_names

_TEXT: Object = {"type": "string"}
_INTEGER: Object = {"type": "integer"}
_TEXTS: Object = {"type": "array", "items": _TEXT}


@dataclass(frozen=True, slots=True)
class ClientTool:
    """One such tool. `member` is the member of its call item with the arguments, and `form` their type. `blank` is the
    value of that member if the arguments are invalid. `others` are further members that clients expect."""

    name: str
    call_type: str
    member: str
    description: str
    parameters: Object
    form: Any
    blank: Any
    others: Mapping[str, Any]
    is_wrapped: bool = False
    """Whether the function's arguments are an object that has the member, instead of being the member themselves."""
    is_open: bool = False
    """Whether requests may have other parameters for the tool, so that the arguments are any object."""

    def members(self, arguments: Object | None) -> Object | None:
        """The members of a call item with these arguments; None if the arguments are invalid."""
        given = arguments.get(self.member) if arguments is not None and self.is_wrapped else arguments
        try:
            checked = _adapter(self.form).validate_python(given)
        except ValidationError:
            return None
        return {self.member: _adapter(self.form).dump_python(checked, exclude_none=True), **self.others}

    def blank_members(self) -> Object:
        """The members of a call item whose arguments are invalid."""
        return {self.member: self.blank, **self.others}

    def arguments(self, item: Object) -> Object:
        """The arguments of a call item, as the model is shown them."""
        given = item.get(self.member)
        if self.is_wrapped:
            # Older computer_call items have one `action` in place of `actions`.
            return {self.member: given if given is not None else [item.get("action")]}
        if not isinstance(given, dict):
            return {self.member: given}
        if self.is_open:
            return given
        known = self.parameters["properties"]
        return {name: value for name, value in given.items() if value is not None and name in known}


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    """The validator of a form, compiled for its first call: most processes never need one."""
    return TypeAdapter(form)


def _object(required: list[str], **properties: Object) -> Object:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_ACTION_TYPES = ["click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"]
_POINT = _object(["x", "y"], x=_INTEGER, y=_INTEGER)

CLIENT_TOOLS: Mapping[str, ClientTool] = {
    tool.name: tool
    for tool in (
        ClientTool(
            "shell",
            "shell_call",
            "action",
            "Runs shell commands on the user's machine, one after the other, and returns what each of them printed.",
            _object(["commands"], commands=_TEXTS, timeout_ms=_INTEGER, max_output_length=_INTEGER),
            ShellAction,
            {"commands": []},
            {"environment": {"type": "local"}},
        ),
        ClientTool(
            "local_shell",
            "local_shell_call",
            "action",
            "Runs a command, given as its program and arguments, on the user's machine, and returns what it printed.",
            _object(["command"], command=_TEXTS, working_directory=_TEXT, timeout_ms=_INTEGER),
            LocalShellAction,
            {"type": "exec", "command": [], "env": {}},
            {},
        ),
        ClientTool(
            "apply_patch",
            "apply_patch_call",
            "operation",
            "Creates, updates or deletes one file of the user's. For create_file and update_file, `diff` is what "
            "changes, in the V4A diff format: context lines begin with a space, new lines with +, old lines with -, "
            "and @@ begins a section.",
            _object(
                ["type", "path"],
                type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                path=_TEXT,
                diff=_TEXT,
            ),
            ApplyPatchOperation,
            {"type": "delete_file", "path": ""},
            {},
        ),
        ClientTool(
            "computer",
            "computer_call",
            "actions",
            "Does things on the user's screen, in their order, and returns a screenshot of what it looks like then.",
            _object(
                ["actions"],
                actions={
                    "type": "array",
                    "items": _object(
                        ["type"],
                        type={"type": "string", "enum": _ACTION_TYPES},
                        x=_INTEGER,
                        y=_INTEGER,
                        button={"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
                        keys=_TEXTS,
                        path={"type": "array", "items": _POINT},
                        scroll_x=_INTEGER,
                        scroll_y=_INTEGER,
                        text=_TEXT,
                    ),
                },
            ),
            ComputerActions,
            [],
            {"pending_safety_checks": []},
            is_wrapped=True,
        ),
        ClientTool(
            "tool_search",
            "tool_search_call",
            "arguments",
            "Finds further tools for a task. The tools that it finds can be called afterwards.",
            _object(["query"], query=_TEXT),
            Object,
            {},
            {"execution": "client"},
            is_open=True,
        ),
    )
}
BY_CALL_TYPE: Mapping[str, ClientTool] = {tool.call_type: tool for tool in CLIENT_TOOLS.values()}


def _shell_output(item: Object) -> list[Any]:
    return [dumps(item.get("output")).decode()]


def _patch_output(item: Object) -> list[Any]:
    return [str(item.get("output") or item.get("status"))]


def _screenshot(item: Object) -> list[Any]:
    shown = item.get("output")
    return [{"type": "input_image", "image_url": shown.get("image_url") if isinstance(shown, dict) else None}]


def _found_tools(item: Object) -> list[Any]:
    return [dumps({"tools": [name for tool in item.get("tools", []) for name in shown_names(tool)]}).decode()]


OUTPUTS: Mapping[str, Callable[[Object], list[Any]]] = {
    "shell_call_output": _shell_output,
    "local_shell_call_output": lambda item: [str(item.get("output"))],
    "apply_patch_call_output": _patch_output,
    "computer_call_output": _screenshot,
    "tool_search_output": _found_tools,
}
"""For each type of output item, the function that makes the result for the model: texts and other content parts."""
