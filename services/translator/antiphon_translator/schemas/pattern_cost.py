"""Estimates the time to compile a pattern, in microseconds, without compiling it.

The library holds the GIL while it compiles. Two things take long: counted repetitions, which are expanded, of sets
beyond ASCII (`.{999}`: 13 ms), and shorthands like `\\s`, whose time grows with the square of their number (400 of
them: 440 ms).
"""

from __future__ import annotations

import re

_WIDE, _NARROW = 13, 1  # the cost of a set beyond ASCII, and of any other piece
_PER_PAIR_OF_SHORTHANDS = 3
_PIECES = re.compile(
    r"(?P<shorthand>\\[sSdDwWpP])|(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?[:<=!])*)|(?P<close>\))"
    r"|\{(?P<least>\d{1,9})(?P<more>,(?P<most>\d{0,9}))?\}|(?P<dot>\.)|(?P<other>.)",
    re.DOTALL,
)
_SIZE_MAX = 10**9


def of(pattern: str) -> int:
    """The estimated cost of a pattern, which may also be invalid."""
    sizes, last, shorthands = [0], 0, 0
    for piece in _PIECES.finditer(pattern):
        kind = piece.lastgroup
        if kind == "open":
            sizes.append(0)
        elif kind == "close":
            last = sizes.pop() if len(sizes) > 1 else 0
            sizes[-1] += last
        elif piece["least"] is not None:
            times = _times(piece)
            sizes[-1] += min(last * (times - 1), _SIZE_MAX)
            last = min(last * times, _SIZE_MAX)
        else:
            shorthands += kind == "shorthand"
            last = _weight(kind, piece.group())
            sizes[-1] += last
    return sum(sizes) + _PER_PAIR_OF_SHORTHANDS * shorthands**2


def _times(piece: re.Match[str]) -> int:
    """How often a repetition expands the piece before it."""
    least = int(piece["least"])
    if piece["more"] is None:
        return max(least, 1)
    return max(int(piece["most"]) if piece["most"] else least + 1, 1)


def _weight(kind: str | None, text: str) -> int:
    if kind in ("shorthand", "dot"):
        return _WIDE
    is_wide = not text.isascii() or text.startswith("[^") or "\\" in text[1:]
    return _WIDE if (kind == "set" and is_wide) or not text.isascii() else _NARROW
