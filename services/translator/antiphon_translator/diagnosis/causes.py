"""The causes for which tokens of a prompt were not in the engine's cache, and OpenAI's words for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum


class Cause(StrEnum):
    """The cause of the first difference between two prompts. The values are those of `response.cache` in the API."""

    MODEL = "model"
    """Another model, tokenizer or template made the prompt."""
    SALT = "salt"
    """The engine keeps the two prompts apart."""
    TOOLS = "tools"
    INSTRUCTIONS = "instructions"
    REASONING_EFFORT = "reasoning_effort"
    TIME = "time"
    """A date or a time in the text, of the template or of the client."""
    IMAGES = "images"
    COMPACTED = "compacted"
    """The context was compacted, or its oldest turns were left out."""
    INPUT = "input"
    """Other items: another branch, or an edited history."""
    TEMPLATE_REWROTE = "template_rewrote"
    """The template writes the same items otherwise, because of what follows them."""
    RETOKENISED = "retokenised"
    """The text is the same, and its token ids are not."""
    UNKNOWN = "unknown"


REASONS: Mapping[Cause, str] = {
    Cause.MODEL: "model_changed",
    Cause.TOOLS: "tools_changed",
    Cause.REASONING_EFFORT: "reasoning_effort_changed",
    Cause.COMPACTED: "context_compacted",
    Cause.INSTRUCTIONS: "input_changed",
    Cause.TIME: "input_changed",
    Cause.IMAGES: "input_changed",
    Cause.INPUT: "input_changed",
    Cause.TEMPLATE_REWROTE: "input_changed",
    Cause.RETOKENISED: "input_changed",
}
"""The `reason` of OpenAI's `cache_miss`; it has none for the other causes."""

_WINDOW_CHARS = 40
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_TIMES = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[t ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?z?)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?"
    r"|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|\d{{1,2}} {_MONTH},? \d{{4}}"
    rf"|{_MONTH} \d{{1,2}},? \d{{4}}"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|\b1\d{9}(?:\d{3})?\b",
    re.IGNORECASE,
)


def is_time(before: str, after: str, place: int) -> bool:
    """Whether both texts have a date or a time at the place where they begin to differ."""
    return _has_time(before, place) and _has_time(after, place)


def _has_time(text: str, place: int) -> bool:
    begin = max(0, place - _WINDOW_CHARS)
    window, at = text[begin : place + _WINDOW_CHARS], place - begin
    return any(match.start() <= at <= match.end() for match in _TIMES.finditer(window))
