"""Finds the image mark of a chat template, the text that it writes for an image, by rendering.

Each model's template has its own mark: `<|vision_start|><|image_pad|><|vision_end|>`, `[IMG]`, `<image>`. The mark
shows whether a template supports images at all, and whether a prompt has all of its images: templates leave out images
where they expect none (in the result of a tool), and a text can spell a mark.

One message is rendered with and without an image at several positions. The mark is the longest text that the image adds
to each prompt.
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
    """The mark; empty if the template has none, or rejects images."""
    try:
        return reduce(_common, _additions(render)).strip()
    except InvalidRequest:
        return ""


def count(prompt: str, mark: str) -> int:
    """The number of marks in a prompt. Adjacent marks may share a character."""
    return len(re.findall(f"(?={re.escape(mark)})", prompt)) if mark else 0


def _additions(render: Render) -> Iterator[str]:
    """Yields the text that an image adds to the prompt, at each of the positions."""
    for parts in _PLACES:
        texts = tuple(part for part in parts if isinstance(part, str))
        yield _find_addition(*(render(Conversation((Message("user", given),)), now_s=0) for given in (texts, parts)))


def _find_addition(plain: str, shown: str) -> str:
    """The text that `shown` has in addition to `plain`. Where several texts could be the addition (the `[` of `[IMG]`
    may also be that of the `[/INST]` behind it), the text from the first of them to the last."""
    added = len(shown) - len(plain)
    if added <= 0:
        return ""
    before, after = _alike(plain, shown), _alike(plain[::-1], shown[::-1])
    return shown[min(before, len(plain) - after) : max(before + added, len(shown) - after)]


def _alike(one: str, other: str) -> int:
    """The length of the common beginning of two texts."""
    differing = (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differing, min(len(one), len(other)))


def _common(one: str, other: str) -> str:
    """The longest text that both contain."""
    match = SequenceMatcher(None, one, other, autojunk=False).find_longest_match()
    return one[match.a : match.a + match.size]
