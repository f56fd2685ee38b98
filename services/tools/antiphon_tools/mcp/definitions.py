"""Tools as a server lists them, read into tools as the model and the policy see them. No I/O.

Invisible characters are removed from all descriptions, and long descriptions are cut. The digest is that of the
definition as the server sent it, so that a change of what was removed is a change, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from antiphon_core.cutting import cut
from antiphon_core.jsons import Object, compact
from antiphon_core.limits import SCHEMA_BYTES_MAX, SCHEMAS_BYTES_MAX, TOOLS_ITEMS_MAX
from antiphon_core.ports.tools import Tool, digest_of
from antiphon_tools.mcp.cleaning import clean
from antiphon_tools.mcp.faults import unusable

NAME_CHARS_MAX = 128  # MCP's recommendation
DESCRIPTION_BYTES_MAX = 8 * 2**10  # the longest of well-known servers has 3 KiB
_TEXTS = frozenset({"description", "title", "$comment"})
"""Members of schemas that are text for a reader, and so for the model."""


class ToolReader:
    """Reads the pages of one listing. Definitions without a usable name or schema, and those whose name `permits`
    rejects, are left out before they are counted."""

    def __init__(self, permits: Callable[[str], bool] = lambda _: True) -> None:
        self._permits = permits
        self._tools: dict[str, Tool] = {}
        self._bytes = 0

    def add(self, page: Iterable[Any]) -> None:
        """Takes one page. ProtocolFault: two tools have the same name, a tool is too large, or the tools of all pages
        are too many or too large together."""
        for definition in page:
            if not _is_usable(definition) or not self._permits(definition["name"]):
                continue
            tool = _tool(definition)
            self._bytes += len(tool.input_schema) + len(tool.output_schema) + len(tool.description)
            if tool.name in self._tools:
                raise unusable(f"lists two tools with the name '{tool.name}'")
            if len(self._tools) == TOOLS_ITEMS_MAX or self._bytes > SCHEMAS_BYTES_MAX:
                raise unusable(f"lists more than {TOOLS_ITEMS_MAX} tools, or more than {SCHEMAS_BYTES_MAX} bytes")
            self._tools[tool.name] = tool

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools so far, in the server's order."""
        return tuple(self._tools.values())


def _is_usable(definition: Any) -> bool:
    match definition:
        case {"name": str(name), "inputSchema": dict()}:
            return 0 < len(name) <= NAME_CHARS_MAX and name.isprintable() and clean(name) == name
    return False


def _tool(definition: Object) -> Tool:
    digest = digest_of(definition)  # before `_schema` cleans the texts in place
    description = definition.get("description")
    return Tool(
        name=definition["name"],
        description=cut(clean(description), DESCRIPTION_BYTES_MAX) if isinstance(description, str) else "",
        input_schema=_schema(definition["inputSchema"], definition["name"]),
        output_schema=_schema(definition.get("outputSchema"), definition["name"]),
        annotations=_object(definition.get("annotations")),
        digest=digest,
    )


def _schema(schema: Any, name: str) -> bytes:
    """ProtocolFault: the schema is too large."""
    if not isinstance(schema, dict):
        return b""
    _clean_texts(schema)
    data = compact(schema)
    if len(data) > SCHEMA_BYTES_MAX:
        raise unusable(f"lists a tool, '{name}', with a schema of more than {SCHEMA_BYTES_MAX} bytes")
    return data


def _object(value: Any) -> bytes:
    data = compact(value) if isinstance(value, dict) else b""
    return data if len(data) <= DESCRIPTION_BYTES_MAX else b""


def _clean_texts(schema: Object) -> None:
    """Cleans and cuts the texts of a schema in place, at any depth: the JSON's depth is limited where it is parsed."""
    for node in _objects(schema):
        for member in _TEXTS & node.keys():
            if isinstance(node[member], str):
                node[member] = cut(clean(node[member]), DESCRIPTION_BYTES_MAX)


def _objects(value: Any) -> Iterator[Object]:
    left = [value]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)
