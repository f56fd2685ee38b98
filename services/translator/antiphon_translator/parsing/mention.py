"""Decides whether a marker is only mentioned in text: in quotes, or within a sentence.

Models write about tags, and their tokenizers turn such tags into control tokens. The text right before and right behind
a marker decides. Both are in the model's own output, so the result does not depend on where its chunks were cut.
"""

from __future__ import annotations

import re

from antiphon_translator.parsing.cursor import Cursor, Reader

AHEAD_CHARS = 2
"""How much text behind a marker is looked at."""

_CLOSING = {"`": "`", '"': '"', "'": "'", "*": "*", "(": ")", "[": "]", "“": "”", "«": "»", "「": "」", "„": "“"}
_OF_WORDS = ("'", "*")  # may also end a word; they open a quotation only where a word could begin
_OPENING = tuple(quote for quote in _CLOSING if quote not in _OF_WORDS)
_OPENED = re.compile(r"(?:\A|[\s(\[])(?:'|\*{1,3})\Z")
_RUNS = {'"': re.compile('"+'), "`": re.compile("(?<!`)`{1,2}(?!`)")}  # three backquotes are a fence
_WORD_BEFORE = re.compile(r"[\w,)\]}\"'”»`][ \t]+\Z")
_WORD_BEHIND = re.compile(r"[ \t]\S|[.,;:!?)](?:\s|\Z)")


def is_mentioned(cursor: Cursor, marker: str, *, strictly: bool = False) -> Reader[bool]:
    """Whether the marker that was read last is only mentioned. With `strictly`, only a marker in quotes is."""
    before = cursor.behind(marker)
    if not may_be_mention(before):
        return False
    behind = yield from cursor.peek(AHEAD_CHARS)
    return is_quoted(before, behind) if strictly else is_mention(before, behind)


def is_quoted(before: str, behind: str) -> bool:
    """Whether a marker between these texts has quotes directly around it. A quote that closes a quotation does not open
    another one."""
    return bool(before) and behind[:1] == _CLOSING.get(before[-1]) and _opens(before)


def is_mention(before: str, behind: str) -> bool:
    """Whether a marker between these texts is quoted, alone or with other text, or a word of a sentence. At the end of
    an output a marker is never a mention, because the closing quote is missing."""
    if not behind:
        return False
    if is_quoted(before, behind) or follows_a_quote(before) or (behind[:1] == '"' and _is_open('"', before)):
        return True
    return follows_a_word(before) and _WORD_BEHIND.match(behind) is not None


def may_be_mention(before: str) -> bool:
    """Whether a marker behind this text may be a mention, depending on the text that follows the marker."""
    return before[-1:] in _CLOSING or follows_a_word(before) or any(_is_open(quote, before) for quote in _RUNS)


def follows_a_quote(before: str) -> bool:
    """Whether this text ends with an opening quote, or within inline code."""
    return _opens(before) or _is_open("`", before)


def follows_a_word(before: str) -> bool:
    """Whether this text ends with a word and a blank, so that a marker behind it is within a sentence."""
    return _WORD_BEFORE.search(before) is not None


def _opens(before: str) -> bool:
    """Whether a text ends with an opening quote."""
    if before.endswith(_OF_WORDS):
        return _OPENED.search(before) is not None
    return before.endswith(_OPENING) and (before[-1] not in _RUNS or _is_open(before[-1], before))


def _is_open(quote: str, before: str) -> bool:
    """Whether the last line of a text has an odd number of these quotes: one is open."""
    return len(_RUNS[quote].findall(before[before.rfind("\n") + 1 :])) % 2 == 1
