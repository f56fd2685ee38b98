"""The digest of the beginning of a prompt's text.

The text of a prompt is cut inside names of control tokens that a message spells (templates/control_tokens.py). The
digest covers the cuts: a prompt with a control token differs from one with text that spells it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

DIGEST_BYTES = 16
_CUT = b"\xff"  # in no text as UTF-8


def prompt_digests(pieces: Sequence[str], lengths: Iterable[int]) -> Mapping[int, bytes]:
    """The digests of the beginnings with these lengths, of those that are not longer than the text."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    found: dict[int, bytes] = {}
    wanted = sorted(set(lengths), reverse=True)
    begin = 0
    for piece in pieces:
        at = 0
        while wanted and wanted[-1] <= begin + len(piece):
            end = wanted[-1] - begin
            digest.update(piece[at:end].encode())
            found[wanted.pop()] = digest.digest()
            at = end
        if not wanted:
            break
        digest.update(piece[at:].encode())
        digest.update(_CUT)
        begin += len(piece)
    return found
