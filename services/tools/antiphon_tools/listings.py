"""The tools of servers, remembered for a time. No I/O.

A listing is kept for one tenant, server and credentials: two tokens may see different tools, and a server may call a
listing private. A caller of a tool needs its definition, too, so that a listing is known for longer than it is fresh.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from antiphon_core.clock import Clock
from antiphon_core.jsons import loads
from antiphon_core.ports.tools import Listing, Tool
from antiphon_tools.mcp.client import ToolPages
from antiphon_tools.targets import Target

LISTINGS_ITEMS_MAX = 1_024
BYTES_MAX = 64 * 2**20
KNOWN_S = 900.0
"""The time for which a call may go by a listing: as long as a turn of many rounds."""

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    tools: Mapping[str, Tool]
    size: int
    fresh_until_s: float
    known_until_s: float


class Listings:
    """A cache with a limit of entries and of bytes."""

    def __init__(self, *, ttl_s: float, clock: Clock) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes = 0

    def fresh(self, key: Key) -> Mapping[str, Tool] | None:
        """The tools, if they need not be listed again."""
        entry = self._entries.get(key)
        return entry.tools if entry is not None and self._clock.monotonic() < entry.fresh_until_s else None

    def known(self, key: Key) -> Mapping[str, Tool] | None:
        """The tools, if they were listed a short time ago."""
        entry = self._entries.get(key)
        return entry.tools if entry is not None and self._clock.monotonic() < entry.known_until_s else None

    def put(self, key: Key, pages: ToolPages) -> int:
        """Keeps a listing. Returns how many tools are defined otherwise than in the listing before."""
        before = self.forget(key)
        now_s = self._clock.monotonic()
        ttl_s = self._ttl_s if pages.ttl_ms is None else min(max(pages.ttl_ms, 0) / 1_000, self._ttl_s)
        tools = {tool.name: tool for tool in pages.tools}
        size = sum(_size(tool) for tool in pages.tools)
        self._entries[key] = _Entry(tools, size, now_s + ttl_s, now_s + max(ttl_s, KNOWN_S))
        self._bytes += size
        while len(self._entries) > LISTINGS_ITEMS_MAX or (self._bytes > BYTES_MAX and len(self._entries) > 1):
            self.forget(next(iter(self._entries)))
        return sum(name in tools and tools[name].digest != tool.digest for name, tool in before.items())

    def forget(self, key: Key) -> Mapping[str, Tool]:
        """Removes a listing, and returns its tools."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return {}
        self._bytes -= entry.size
        return entry.tools


def _size(tool: Tool) -> int:
    return 500 + len(tool.description) + len(tool.input_schema) + len(tool.output_schema) + len(tool.annotations)


def listing_of(target: Target, tools: Mapping[str, Tool]) -> Listing:
    """The listing for a caller: with the operator's policy, and the annotations that the operator trusts."""
    operator = target.operator
    if operator is None:
        return Listing(target.identity, tuple(tools.values()))
    return Listing(
        target.identity,
        tuple(
            _with_hints(tool, trusted=operator.trust_annotations, deduplicated=operator.deduplicates)
            for tool in tools.values()
            if is_usable(target, tool)
        ),
        approval=operator.approval,
        is_parallel=operator.parallel,
    )


def is_usable(target: Target, tool: Tool) -> bool:
    """Whether a listed tool is permitted now, and is the pinned one if the operator has pins."""
    pins = target.operator.pins if target.operator is not None else None
    return target.permits(tool.name) and (pins is None or pins.get(tool.name) == tool.digest)


def _with_hints(tool: Tool, *, trusted: bool, deduplicated: bool) -> Tool:
    hints: dict[str, Any] = loads(tool.annotations) if trusted and tool.annotations else {}
    is_read_only = hints.get("readOnlyHint") is True
    is_repeatable = deduplicated or is_read_only or hints.get("idempotentHint") is True
    return replace(tool, is_read_only=is_read_only, is_repeatable=is_repeatable)
