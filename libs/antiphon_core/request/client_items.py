"""Calls of tools that OpenAI defines and the client runs, and the outputs of these calls.

Calls are validated completely, also those that a model wrote (antiphon_translator.prompt.client_tools), because clients
execute them.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.errors import TAG
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import Exact, ItemId, Open, type_tag

CallId = Annotated[str, Field(min_length=1, max_length=limits.CALL_ID_CHARS_MAX)]
Status = Literal["in_progress", "completed", "incomplete"]
_Milliseconds = Annotated[int, Field(ge=0)]

SEARCH_CALL, SEARCH_OUTPUT = "tool_search_call", "tool_search_output"
_RUN_TYPES = ("shell_call", "local_shell_call", "apply_patch_call", "computer_call")
CALL_TYPES = (*_RUN_TYPES, SEARCH_CALL)
OUTPUT_TYPES = (*(f"{call}_output" for call in _RUN_TYPES), SEARCH_OUTPUT)


def _reject_file_id(given: str | None) -> None:
    if given is not None:
        raise PydanticCustomError(
            "unsupported_parameter", "There is no Files API on this server, so no file has an id here"
        )


FileId = Annotated[str | None, AfterValidator(_reject_file_id)]


class ShellAction(Exact):
    commands: Annotated[list[str], Field(min_length=1), AtMost(limits.PARTS_ITEMS_MAX)]
    """Commands to run in order."""
    timeout_ms: _Milliseconds | None = None
    max_output_length: Annotated[int, Field(ge=0)] | None = None
    """The limit of characters of output for the model."""


class LocalShellAction(Exact):
    type: Literal["exec"] = "exec"
    command: Annotated[list[str], Field(min_length=1), AtMost(limits.PARTS_ITEMS_MAX)]
    """The program and its arguments."""
    env: Annotated[dict[str, str], AtMost(limits.ENVIRONMENT_ITEMS_MAX)] = Field(default_factory=dict)
    timeout_ms: _Milliseconds | None = None
    user: str | None = None
    working_directory: str | None = None


class ApplyPatchOperation(Exact):
    type: Literal["create_file", "update_file", "delete_file"]
    path: Annotated[str, Field(min_length=1)]
    diff: str | None = None
    """The changes in the V4A format; not allowed for `delete_file`."""

    @model_validator(mode="after")
    def _has_its_diff(self) -> Self:
        if (self.diff is None) != (self.type == "delete_file"):
            raise PydanticCustomError(
                "missing_required_parameter", "A 'diff' is needed to create or update a file, and only then"
            )
        return self


class _Point(TypedDict):
    x: int
    y: int


class ComputerAction(Exact):
    """One action on a screen. Its `type` determines which other members it needs."""

    type: Literal["click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"]
    x: int | None = None
    y: int | None = None
    button: Literal["left", "right", "wheel", "back", "forward"] | None = None
    keys: Annotated[list[str], AtMost(limits.PARTS_ITEMS_MAX)] | None = None
    path: Annotated[list[_Point], AtMost(limits.PARTS_ITEMS_MAX)] | None = None
    scroll_x: int | None = None
    scroll_y: int | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> Self:
        for name in _NEEDED.get(self.type, ()):
            if getattr(self, name) is None:
                raise PydanticCustomError("missing_required_parameter", f"'{self.type}' needs '{name}'")
        return self


_NEEDED = {
    "click": ("x", "y", "button"),
    "double_click": ("x", "y"),
    "drag": ("path",),
    "keypress": ("keys",),
    "move": ("x", "y"),
    "scroll": ("x", "y", "scroll_x", "scroll_y"),
    "type": ("text",),
}
ComputerActions = Annotated[list[ComputerAction], Field(min_length=1), AtMost(limits.PARTS_ITEMS_MAX)]


class ShellCall(Open):
    type: Literal["shell_call"]
    call_id: CallId
    """The id by which the output refers to the call."""
    action: ShellAction
    """The commands."""
    id: ItemId | None = None
    status: Status | None = None


class ShellCallOutput(Open):
    type: Literal["shell_call_output"]
    call_id: CallId
    """The `call_id` of the call that this is the output of."""
    output: Annotated[list[Object], AtMost(limits.PARTS_ITEMS_MAX)]
    """The output of each command, and how it ended."""
    id: ItemId | None = None
    status: Status | None = None


class LocalShellCall(Open):
    type: Literal["local_shell_call"]
    call_id: CallId
    """The id by which the output refers to the call."""
    action: LocalShellAction
    """The command."""
    id: ItemId | None = None
    status: Status | None = None


class LocalShellCallOutput(Open):
    """The output of a local shell. OpenAI's types name its call by `id`, OpenAI's guide by `call_id`."""

    type: Literal["local_shell_call_output"]
    id: CallId | None = None
    """The `call_id` of the call that this is the output of, if there is no `call_id`."""
    call_id: CallId | None = None
    """The `call_id` of the call that this is the output of."""
    output: str
    """The output of the command."""
    status: Status | None = None

    @model_validator(mode="after")
    def _names_its_call(self) -> Self:
        if self.id is None and self.call_id is None:
            raise PydanticCustomError("missing_required_parameter", "Either 'call_id' or 'id' is needed")
        return self


class ApplyPatchCall(Open):
    type: Literal["apply_patch_call"]
    call_id: CallId
    """The id by which the output refers to the call."""
    operation: ApplyPatchOperation
    """The file and its change."""
    id: ItemId | None = None
    status: Status | None = None


class ApplyPatchCallOutput(Open):
    type: Literal["apply_patch_call_output"]
    call_id: CallId
    """The `call_id` of the call that this is the output of."""
    status: Literal["completed", "failed"]
    """Whether the patch was applied."""
    output: str | None = None
    """A message about the result."""
    id: ItemId | None = None


class ComputerCall(Open):
    type: Literal["computer_call"]
    call_id: CallId
    """The id by which the output refers to the call."""
    action: ComputerAction | None = None
    """A single action, the form of older models."""
    actions: Annotated[list[ComputerAction], AtMost(limits.PARTS_ITEMS_MAX)] | None = None
    """The actions in order."""
    id: ItemId | None = None
    status: Status | None = None


class Screenshot(Open):
    type: Literal["computer_screenshot"]
    file_id: FileId = None
    """Not supported: this server has no Files API."""
    image_url: str
    """A `data:` or https URL."""


class ComputerCallOutput(Open):
    type: Literal["computer_call_output"]
    call_id: CallId
    """The `call_id` of the call that this is the output of."""
    output: Screenshot
    """The screen after the last action."""
    id: ItemId | None = None
    status: Status | None = None


class ToolSearchCall(Open):
    """A search for tools that the client runs."""

    type: Literal["tool_search_call"]
    execution: Literal["client"]
    call_id: CallId
    """The id by which the output refers to the call."""
    arguments: Object
    """The arguments of the search."""
    id: ItemId | None = None
    status: Status | None = None


class ToolSearchOutput(Open):
    """The tools that a client has found. They are validated when all tools of the turn are known."""

    type: Literal["tool_search_output"]
    execution: Literal["client"]
    call_id: CallId
    """The `call_id` of the call that this is the output of."""
    tools: Annotated[list[Object], AtMost(limits.TOOLS_ITEMS_MAX)]
    """The found tools, which the model can call from now on."""
    id: ItemId | None = None
    status: Status | None = None


ClientItem = Annotated[
    Annotated[ShellCall, Tag(TAG + "shell_call")]
    | Annotated[ShellCallOutput, Tag(TAG + "shell_call_output")]
    | Annotated[LocalShellCall, Tag(TAG + "local_shell_call")]
    | Annotated[LocalShellCallOutput, Tag(TAG + "local_shell_call_output")]
    | Annotated[ApplyPatchCall, Tag(TAG + "apply_patch_call")]
    | Annotated[ApplyPatchCallOutput, Tag(TAG + "apply_patch_call_output")]
    | Annotated[ComputerCall, Tag(TAG + "computer_call")]
    | Annotated[ComputerCallOutput, Tag(TAG + "computer_call_output")]
    | Annotated[ToolSearchCall, Tag(TAG + SEARCH_CALL)]
    | Annotated[ToolSearchOutput, Tag(TAG + SEARCH_OUTPUT)],
    Discriminator(type_tag),
]


def is_client_item(item: Object) -> bool:
    """Whether an item is a ClientItem by its type. A search that a server ran is not."""
    given = item.get("type")
    if given in (SEARCH_CALL, SEARCH_OUTPUT):
        return item.get("execution") not in (None, "server")
    return given in CALL_TYPES or given in OUTPUT_TYPES
