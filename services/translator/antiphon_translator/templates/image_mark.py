"""Finds the text that a chat template writes for an image, by rendering.

Each model has a mark of its own, written by its template: `<|vision_start|><|image_pad|><|vision_end|>`, `[IMG]`,
`<image>`. The mark tells whether a template has a place for images at all, and whether a prompt has one for each image:
templates leave out images at places where they expect none (in the result of a tool), and a text can spell a mark.

One message is rendered with an image and without, at several places in the conversation. The mark is the text that all
prompts with an image have, and no prompt without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import reduce
from typing import Protocol

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Image, Message

_IMAGE = Image(b"", "png", 1, 1)
_FIRST, _SECOND = "Before.", "Zero."
_PLACES = ((_FIRST, _IMAGE, _SECOND), (_IMAGE, _SECOND), (_FIRST, _IMAGE))


class Render(Protocol):
    def __call__(self, conversation: Conversation, *, now_s: int) -> str: ...


def of(render: Render) -> str:
    """The mark; empty if the template has none, or refuses images."""
    try:
        return reduce(_common, _written(render)).strip()
    except InvalidRequest:  # then it says so to each user, too
        return ""


def count(prompt: str, mark: str) -> int:
    """How many images a prompt has a place for. Marks side by side may share a character."""
    return len(re.findall(f"(?={re.escape(mark)})", prompt)) if mark else 0


def _written(render: Render) -> Iterator[str]:
    """Yields the text that the template writes for an image, at each of the places."""
    for parts in _PLACES:
        texts = tuple(part for part in parts if isinstance(part, str))
        yield _added(*(render(Conversation((Message("user", given),)), now_s=0) for given in (texts, parts)))


def _added(plain: str, shown: str) -> str:
    """The text that one prompt has in addition to the other. Where several texts could be the addition (the `[` of
    `[IMG]` is also the one of the `[/INST]` behind it), the text from the first of them to the last."""
    added = len(shown) - len(plain)
    if added <= 0:
        return ""
    before, after = _alike(plain, shown), _alike(plain[::-1], shown[::-1])
    return shown[min(before, len(plain) - after) : max(before + added, len(shown) - after)]


def _alike(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    differing = (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differing, min(len(one), len(other)))


def _common(one: str, other: str) -> str:
    """The longest text that is in both."""
    match = SequenceMatcher(None, one, other, autojunk=False).find_longest_match()
    return one[match.a : match.a + match.size]
