"""Whether a marker is only spoken of: in quotes, or in the midst of a sentence.

Models write about tags, and their tokenizers make control tokens of what they write. What stands right before and
right behind a marker tells; both are parts of the model's own text, so where it was cut cannot matter.
"""

from __future__ import annotations

import re

from antiphon_translator.parsing.cursor import Cursor, Reader

AHEAD_CHARS = 2
"""So much of what stands behind a marker is looked at."""

_CLOSING = {"`": "`", '"': '"', "'": "'", "*": "*", "(": ")", "[": "]", "“": "”", "«": "»", "「": "」", "„": "“"}
_OF_WORDS = ("'", "*")  # end words as well, and open only before them
_OPENING = tuple(quote for quote in _CLOSING if quote not in _OF_WORDS)
_OPENED = re.compile(r"(?:\A|[\s(\[])(?:'|\*{1,3})\Z")
_RUNS = {'"': re.compile('"+'), "`": re.compile("(?<!`)`{1,2}(?!`)")}  # three are a fence
_WORD_BEFORE = re.compile(r"[\w,)\]}\"'”»`][ \t]+\Z")
_WORD_BEHIND = re.compile(r"[ \t]\S|[.,;:!?)](?:\s|\Z)")


def is_mentioned(cursor: Cursor, marker: str, *, strictly: bool = False) -> Reader[bool]:
    """Whether the marker that was read last is only spoken of; with `strictly`, only where it stands in quotes."""
    before = cursor.behind(marker)
    if not may_be_mention(before):
        return False
    behind = yield from cursor.peek(AHEAD_CHARS)
    return is_quoted(before, behind) if strictly else is_mention(before, behind)


def is_quoted(before: str, behind: str) -> bool:
    """Whether a marker between these texts stands directly in quotes. A quote that ends others opens none."""
    return bool(before) and behind[:1] == _CLOSING.get(before[-1]) and _opens(before)


def is_mention(before: str, behind: str) -> bool:
    """Whether a marker between these texts is quoted, alone or with others, or a word of a sentence. At the end of an
    output a marker is what it is: nobody ends with half a quotation."""
    if not behind:
        return False
    if is_quoted(before, behind) or follows_a_quote(before) or (behind[:1] == '"' and _is_open('"', before)):
        return True
    return follows_a_word(before) and _WORD_BEHIND.match(behind) is not None


def may_be_mention(before: str) -> bool:
    """Whether what stands behind a marker can make it one that is only spoken of."""
    return before[-1:] in _CLOSING or follows_a_word(before) or any(_is_open(quote, before) for quote in _RUNS)


def follows_a_quote(before: str) -> bool:
    """Whether a marker behind this text is the first that stands in quotes, or stands in a line's code."""
    return _opens(before) or _is_open("`", before)


def follows_a_word(before: str) -> bool:
    """Whether a marker behind this text stands in a line of words."""
    return _WORD_BEFORE.search(before) is not None


def _opens(before: str) -> bool:
    """Whether a text ends with a quote that opens."""
    if before.endswith(_OF_WORDS):
        return _OPENED.search(before) is not None
    return before.endswith(_OPENING) and (before[-1] not in _RUNS or _is_open(before[-1], before))


def _is_open(quote: str, before: str) -> bool:
    """Whether quotes were opened in this line, and not closed."""
    return len(_RUNS[quote].findall(before[before.rfind("\n") + 1 :])) % 2 == 1
