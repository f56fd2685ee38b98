"""Lists every leaf of the request types of the installed `openai` package: each member, tool, part and item of a
request, down to texts, numbers and the values of a choice.

A leaf has a key, such as `tools[function].strict=true`, and the places where a request can have it. The members of a
tagged object are listed after its tag, a text beside other forms is `input (text)`, and lists are transparent. Types
that the package repeats in several places (tools within items, content within outputs) have one key with all places.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

Wrap = Callable[[Any], Any]

_SAME = (
    (re.compile(r"^input\[(additional_tools|tool_search_output)\]\.tools"), "tools"),
    (re.compile(r"^tools\[namespace\]\.tools"), "tools"),
    (re.compile(r"^input\[[a-z_]+\]\.(content|output)(?=\[input_)"), "content"),
    (re.compile(r"^input\[[a-z_]+\]\.caller\b"), "caller"),
    (re.compile(r"^content\[[a-z_]+\]\.prompt_cache_breakpoint"), "prompt_cache_breakpoint"),
)
_NAMES = {str: "text", int: "number", float: "number", object: "anything"}
_PLAIN = {str: "x", int: 1, float: 0.5, object: {}, bool: True}
_IMAGE = "data:image/png;base64,iVBORw0KGgo="
EXAMPLES: Mapping[str, Any] = {
    "input[computer_call_output].output[computer_screenshot].image_url": _IMAGE,
    "content[input_image].image_url": _IMAGE,
    "content[input_file].file_data": "data:text/plain;base64,SGk=",
    "content[input_file].file_url": "https://example.com/file.txt",
    "tools[function].parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    "tools[custom].format[grammar].definition": "a+",
}
"""Values of members that need a specific form."""
NEEDED: Mapping[str, Mapping[str, Any]] = {
    "content[input_image]": {"image_url": _IMAGE},
    "input[computer_call_output].output[computer_screenshot]": {"image_url": _IMAGE},
    "content[input_file]": {"file_data": EXAMPLES["content[input_file].file_data"]},
    "input[function_call_output]": {"call_id": "x"},
    "tools[tool_search]": {"execution": "client"},
}
"""Members that an example needs, although its type does not require them."""


@dataclass
class Leaf:
    """A leaf. `places` are pairs of a path and a request body that has the leaf at this path."""

    key: str
    places: list[tuple[str, Any]] = field(default_factory=list)


def leaves(body: type, *, whole: Collection[str], skip: Collection[str] = ()) -> dict[str, Leaf]:
    """Returns the leaves of a request body by their keys. A key in `whole` is a leaf even if it has members; members of
    the body in `skip` are left out."""
    found: dict[str, Leaf] = {}
    for name, hint in get_type_hints(body, include_extras=True).items():
        if name in skip:
            continue

        def place(value: Any, name: str = name) -> Any:
            return {name: value}

        for key, path, request in _walk(hint, name, name, place, whole):
            found.setdefault(key, Leaf(key)).places.append((path, request))
    return found


def _walk(hint: Any, key: str, path: str, wrap: Wrap, whole: Collection[str]) -> Iterator[tuple[str, str, Any]]:
    key = _canonical(key)
    options = _options(hint)
    if key in whole or _is_plain(options):
        yield key, path, wrap(_example(hint, key))
        return
    for option in options:
        if is_typeddict(option):
            yield from _walk_members(option, key, path, wrap, whole)
        elif get_origin(option) is Literal or option is bool:
            for value in _values(option):
                yield f"{key}={str(value).lower() if isinstance(value, bool) else value}", path, wrap(value)
        elif _is_list(option):
            yield from _walk(get_args(option)[0], key, f"{path}[0]", lambda value: wrap([value]), whole)
        else:
            name = f"{key} ({_NAMES[option]})" if len(options) > 1 else key
            yield name, path, wrap(_example(option, key))


def _walk_members(
    option: Any, key: str, path: str, wrap: Wrap, whole: Collection[str]
) -> Iterator[tuple[str, str, Any]]:
    hints = get_type_hints(option, include_extras=True)
    for tag in _tags(hints) or (None,):
        name = _canonical(f"{key}[{tag}]" if tag is not None else key)
        base = _object(option, name, tag)
        if name in whole:
            yield name, path, wrap(base)
            continue
        members = [member for member in hints if not (member == "type" and tag is not None)]
        if not members:
            yield name, path, wrap(base)
        for member in members:

            def place(value: Any, member: str = member, base: Any = base) -> Any:
                return wrap(base | {member: value})

            yield from _walk(hints[member], f"{name}.{member}", f"{path}.{member}", place, whole)


def _canonical(key: str) -> str:
    for pattern, same in _SAME:
        key = pattern.sub(same, key)
    return key


def _bare(hint: Any) -> Any:
    while get_origin(hint) in (Annotated, Required, NotRequired):
        hint = get_args(hint)[0]
    return hint


def _options(hint: Any) -> list[Any]:
    """Returns the types that a value can have, without None."""
    hint = _bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return [option for each in get_args(hint) for option in _options(each)]
    return [] if hint is type(None) else [hint]


def _is_plain(options: list[Any]) -> bool:
    """Returns whether any text is valid: a list of known names beside `str` is no restriction."""
    return str in options and all(option is str or get_origin(option) is Literal for option in options)


def _is_list(option: Any) -> bool:
    return len(get_args(option)) == 1 and get_origin(option) is not Literal


def _values(option: Any) -> tuple[Any, ...]:
    return (True, False) if option is bool else get_args(option)


def _tags(hints: Mapping[str, Any]) -> tuple[Any, ...]:
    options = _options(hints["type"]) if "type" in hints else []
    return get_args(options[0]) if options and get_origin(options[0]) is Literal else ()


def _object(option: Any, key: str, tag: Any) -> dict[str, Any]:
    """Returns a minimal example of such an object."""
    hints = get_type_hints(option, include_extras=True)
    made = {
        name: _example(hint, f"{key}.{name}") for name, hint in hints.items() if get_origin(hint) is Required
    } | dict(NEEDED.get(key, {}))
    return made | {"type": tag} if tag is not None else made


def _example(hint: Any, key: str) -> Any:
    key = _canonical(key)
    if key in EXAMPLES:
        return EXAMPLES[key]
    options = _options(hint)
    option = options[0] if options else str
    if is_typeddict(option):
        tags = _tags(get_type_hints(option, include_extras=True))
        return _object(option, f"{key}[{tags[0]}]" if tags else key, tags[0] if tags else None)
    if get_origin(option) is Literal:
        return get_args(option)[0]
    if _is_list(option):
        return [_example(get_args(option)[0], key)]
    return _PLAIN.get(option, {})
