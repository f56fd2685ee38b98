"""Finds texts that a chat template distorted: a template that expects another form of a value prints its Python form.

A model that reads `[{'type': 'text', 'text': 'Rome'}]` in place of `Rome` answers worse, and no error shows it
(vllm-project/vllm#39614, sgl-project/sglang#22595). The texts of a probe are single words, so a word in single quotes
behind a colon or a bracket was printed by Python, and a part's type can only come from a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = re.compile(r"""['"]type['"]\s*:\s*['"](?:text|image)['"]""")
_PYTHON = re.compile(r"(?<![\w\"'])(?:None|True|False)(?![\w\"'])")


def of(prompt: str, messages: Iterable[Iterable[str]]) -> str | None:
    """The distortion of one of the texts in the prompt of a probe; None if it has all of them. The messages are in
    order; the texts of one message may be in any."""
    if _PART.search(prompt):
        return "a list of parts, printed"
    position = 0
    for texts in messages:
        found = {text: prompt.find(text, position) for text in texts if text}
        for text, place in found.items():
            if place < 0:
                return f"nothing of '{text}'"
            if re.search(rf"[:\[(]\s*'{re.escape(text)}'", prompt):
                return f"Python's form of '{text}'"
        position = max(found.values(), default=position)
    return None


def python_words(prompt: str, literals: Iterable[str]) -> list[str]:
    """The words None, True and False of Python in a prompt, besides those in the template's own texts."""
    own = [word for literal in literals for word in _PYTHON.findall(literal)]
    found = _PYTHON.findall(prompt)
    return sorted({word for word in found if found.count(word) > own.count(word)})
