"""How long a pattern takes to compile, in about a microsecond each, said without compiling it.

The library holds the GIL while it compiles. Two things take long: repetitions, which are written out, of sets that
reach beyond ASCII (`.{999}`: 13 ms), and shorthands like `\\s`, of which each makes all others slower (400 of them:
440 ms).
"""

from __future__ import annotations

import re

_WIDE, _NARROW = 13, 1  # what one of a set beyond ASCII costs, and one of any other
_PER_PAIR_OF_SHORTHANDS = 3
_PIECES = re.compile(
    r"(?P<shorthand>\\[sSdDwWpP])|(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?[:<=!])*)|(?P<close>\))"
    r"|\{(?P<least>\d{1,9})(?P<more>,(?P<most>\d{0,9}))?\}|(?P<dot>\.)|(?P<other>.)",
    re.DOTALL,
)
_SIZE_MAX = 10**9


def of(pattern: str) -> int:
    """The cost of one pattern, whatever it holds; of one that is none, too."""
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
    """How often what stands before a repetition is written out."""
    least = int(piece["least"])
    if piece["more"] is None:
        return max(least, 1)
    return max(int(piece["most"]) if piece["most"] else least + 1, 1)


def _weight(kind: str | None, text: str) -> int:
    if kind in ("shorthand", "dot"):
        return _WIDE
    is_wide = not text.isascii() or text.startswith("[^") or "\\" in text[1:]
    return _WIDE if (kind == "set" and is_wide) or not text.isascii() else _NARROW
