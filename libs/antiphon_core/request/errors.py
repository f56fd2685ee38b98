"""Translates pydantic's validation errors to errors with OpenAI's code, a message and the path of the wrong member.

Where a value may have several forms, the models name each form by a tag that starts with TAG. Pydantic includes these
tags in the locations of errors, so they are removed from paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import kind
from antiphon_core.request.hosted_tools import HOSTED, hosted_tool_message

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

TAG = "~"
_INTEGERS_BEGINNING, _INTEGERS_END = float(-(2**63)), float(2**64)
JSON_KIND_TAGS: dict[type, str] = {str: TAG + "string", list: TAG + "array", dict: TAG + "object"}

# Types of items, content parts and tools that exist in the Responses API. Where one of them is not supported, the error
# says so, instead of calling it unknown.
KNOWN_TYPES = frozenset(
    """
    message file_search_call computer_call computer_call_output web_search_call function_call function_call_output
    tool_search_call tool_search_output additional_tools configuration_update reasoning compaction
    image_generation_call code_interpreter_call local_shell_call local_shell_call_output shell_call
    shell_call_output apply_patch_call apply_patch_call_output mcp_list_tools mcp_approval_request
    mcp_approval_response mcp_call custom_tool_call custom_tool_call_output compaction_trigger item_reference
    program program_output input_text input_image input_file input_audio input_video output_text refusal reasoning_text
    summary_text function custom namespace web_search web_search_2025_08_26 web_search_preview
    web_search_preview_2025_03_11 tool_search file_search computer computer_use computer_use_preview mcp
    code_interpreter programmatic_tool_calling image_generation local_shell shell apply_patch allowed_tools
    """.split()
)


def types_tag(types: Iterable[str]) -> str:
    """The tag of a form that has several types."""
    return TAG + "|".join(types)


def from_validation(error: ValidationError, *, where: str = "") -> InvalidRequest:
    """The InvalidRequest for pydantic's first finding. `where` is the path of the value that was validated."""
    finding = error.errors(include_url=False)[0]
    path = _path(where, _steps(finding))
    if _is_huge(finding):
        fault, code = ("large", "above_max") if finding["input"] > 0 else ("small", "below_min")
        return InvalidRequest(
            f"Invalid value for '{path}': it is too {fault}.", field=path, code=f"integer_{code}_value"
        )
    code, explain = _CODES.get(finding["type"], _WRONG_TYPE)
    if finding["type"] == "union_tag_invalid" and _names_its_type(finding):
        return _unknown_type(path, finding)
    if finding["type"] == "union_tag_not_found" and isinstance(finding["input"], dict):
        return InvalidRequest(
            f"Missing required parameter: '{path}.type'.", field=f"{path}.type", code="missing_required_parameter"
        )
    return InvalidRequest(explain(path, finding), field=path or None, code=_code(code, finding))


def _steps(finding: ErrorDetails) -> list[str | int]:
    """The location of a finding without pydantic's tags. An unknown member may have any name, even one like a tag."""
    location = finding["loc"]
    named = location[-1:] if finding["type"] == "extra_forbidden" else ()
    known = location[: len(location) - len(named)]
    return [step for step in known if not (isinstance(step, str) and step.startswith((TAG, "[key]")))] + [*named]


def _names_its_type(finding: ErrorDetails) -> bool:
    """Whether the tag that no form has is the member `type` of the value, and not the JSON type of the value."""
    given, tag = finding["input"], finding["ctx"]["tag"]
    is_named = isinstance(given, dict) and tag == f"{TAG}{given.get('type')}"
    return is_named or tag not in JSON_KIND_TAGS.values()


def _is_huge(finding: ErrorDetails) -> bool:
    """Whether the finding is an integer of more than 64 bits, which the JSON parser reads as a float."""
    given = finding["input"]
    return (
        finding["type"] == "int_type" and isinstance(given, float) and not _INTEGERS_BEGINNING < given < _INTEGERS_END
    )


def _path(path: str, steps: Sequence[str | int]) -> str:
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def _unknown_type(path: str, finding: ErrorDetails) -> InvalidRequest:
    given = str(finding["ctx"]["tag"]).removeprefix(TAG)
    if given in HOSTED and "tools[" in path:
        return InvalidRequest(hosted_tool_message(path, given), field=path, code="unsupported_value")
    if given in KNOWN_TYPES:
        return InvalidRequest(
            f"'{path}' is of type '{given}', which is not supported by this server yet.",
            field=path,
            code="unsupported_value",
        )
    path += ".type"
    return InvalidRequest(
        f"Invalid value: '{given}'. '{path}' names no known type. Possible are: {_possible_types(finding)}.",
        field=path,
        code="invalid_value",
    )


def _possible_types(finding: ErrorDetails) -> str:
    """The types that the union has, from pydantic's list of its tags (`types_tag`)."""
    tags = [tag.strip("' ") for tag in finding["ctx"]["expected_tags"].split(",")]
    types = [name for tag in tags if tag not in JSON_KIND_TAGS.values() for name in tag.removeprefix(TAG).split("|")]
    return ", ".join(dict.fromkeys(types))


def _wrong_type(path: str, finding: ErrorDetails) -> str:
    expected = {
        "string_type": "a string",
        "int_type": "an integer",
        "float_type": "a number",
        "bool_type": "a boolean",
        "list_type": "an array",
        "dict_type": "an object",
        "model_type": "an object",
        "model_attributes_type": "an object",
    }.get(finding["type"])
    wanted = f"expected {expected}" if expected else "this is not one of its possible types"
    return f"Invalid type for '{path}': {wanted}, but got {kind(finding['input'])} instead."


def _limit(name: str, wording: str) -> Callable[[str, ErrorDetails], str]:
    def explain(path: str, finding: ErrorDetails) -> str:
        bound: Any = finding["ctx"][name]
        counted = wording.format(bound)
        counted = counted.removesuffix("s") if bound == 1 else counted
        return f"Invalid value for '{path}': {counted}."

    return explain


def _too_many(path: str, finding: ErrorDetails) -> str:
    count, most = len(finding["input"]), finding["ctx"]["max_length"]
    if not path:
        return f"The request body must have at most {most} members, but has {count}."
    elements = "element" if most == 1 else "elements"
    return f"Invalid value for '{path}': it must have at most {most} {elements}, but has {count}."


_Row = tuple[str, "Callable[[str, ErrorDetails], str]"]


def _own_message(path: str, finding: ErrorDetails) -> str:
    """The message of one of Antiphon's own validators (PydanticCustomError), and the path."""
    return f"{finding['msg']}: '{path}'."


_WRONG_TYPE: _Row = ("invalid_type", _wrong_type)

# In a code, {number} becomes integer or decimal, and {container} array or object.
_CODES: dict[str, _Row] = {
    "missing": ("missing_required_parameter", lambda path, _: f"Missing required parameter: '{path}'."),
    "extra_forbidden": ("unknown_parameter", lambda path, _: f"Unknown parameter: '{path}'."),
    "literal_error": (
        "invalid_value",
        lambda path, finding: (
            f"Invalid value: {finding['input']!r}. '{path}' must be one of {finding['ctx']['expected']}."
        ),
    ),
    "string_pattern_mismatch": (
        "invalid_value",
        lambda path, finding: (
            f"Invalid value: {finding['input']!r}. '{path}' must match the pattern {finding['ctx']['pattern']}."
        ),
    ),
    "greater_than": ("{number}_below_min_value", _limit("gt", "it must be above {}")),
    "greater_than_equal": ("{number}_below_min_value", _limit("ge", "it must be at least {}")),
    "less_than_equal": ("{number}_above_max_value", _limit("le", "it must be at most {}")),
    "finite_number": ("invalid_value", lambda path, _: f"Invalid value for '{path}': it must be a finite number."),
    "string_too_short": ("string_below_min_length", _limit("min_length", "it must have at least {} characters")),
    "string_too_long": ("string_above_max_length", _limit("max_length", "it must have at most {} characters")),
    "too_short": ("{container}_below_min_length", _limit("min_length", "it must have at least {} elements")),
    "too_long": ("{container}_above_max_length", _too_many),
    "hosted_tool": ("unsupported_value", lambda path, finding: hosted_tool_message(path, finding["input"]["type"])),
    **{
        code: (code, _own_message)
        for code in ("unsupported_parameter", "missing_required_parameter", "mutually_exclusive_parameters")
    },
}


def _code(template: str, finding: ErrorDetails) -> str:
    bounds = finding.get("ctx", {})
    decimal = any(isinstance(bounds.get(name), float) for name in ("gt", "ge", "le"))
    return template.format(
        number="decimal" if decimal else "integer",
        container="object" if isinstance(finding["input"], dict) else "array",
    )
