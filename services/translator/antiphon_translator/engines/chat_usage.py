"""The token counts in a stream of chat completions, under the names that servers give them.

A count that cannot be right is unreported: null, negative, no number, or larger than any conversation. A server may
report the prompt first and the output later, or all counts with each chunk: the last number of each count holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from antiphon_core.jsons import Object
from antiphon_translator.engines.unread import UnreadReport
from antiphon_translator.generation import ReportedUsage

_COUNT_MAX = 2**31 - 1
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details")
_PATHS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "input_tokens": (("prompt_tokens",), ("input_tokens",)),
    "output_tokens": (("completion_tokens",), ("output_tokens",)),
    "reasoning_tokens": (*((name, "reasoning_tokens") for name in _OUTPUT_DETAILS), ("reasoning_tokens",)),  # SGLang
    "cached_tokens": (
        *((name, "cached_tokens") for name in _INPUT_DETAILS),
        ("prompt_cache_hit_tokens",),  # DeepSeek
        ("cached_tokens",),  # Moonshot
        ("cache_read_input_tokens",),  # Anthropic
    ),
}
"""Where each count may be, the standard place first."""


def given_in(chunk: Object) -> object:
    """The usage in a chunk; Groq has it in a member of its own."""
    given = chunk.get("usage")
    if given is None and isinstance(other := chunk.get("x_groq"), dict):
        return other.get("usage")
    return given


def merge_usage(known: ReportedUsage | None, given: object, unread: UnreadReport) -> ReportedUsage | None:
    """The counts that are known, with those in a `usage` member."""
    if not isinstance(given, dict):
        unread.note("usage", given)
        return known
    found: Object = {name: count for name, paths in _PATHS.items() if (count := _first(given, paths)) is not None}
    if not found:
        if any(value is not None for value in given.values()):
            unread.note("usage", given)
        return known
    return replace(known or ReportedUsage(), **found)


def _first(given: Object, paths: tuple[tuple[str, ...], ...]) -> int | None:
    counts = (_count(_at(given, path)) for path in paths)
    return next((count for count in counts if count is not None), None)


def _at(given: object, path: tuple[str, ...]) -> object:
    for name in path:
        given = given.get(name) if isinstance(given, dict) else None
    return given


def _count(given: object) -> int | None:
    """A count that is a number, or a text of digits."""
    if isinstance(given, str) and given.isdecimal() and len(given) < len(str(_COUNT_MAX)):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= _COUNT_MAX:
        return None
    return int(given) if given == int(given) else None
