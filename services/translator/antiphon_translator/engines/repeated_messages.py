"""Messages of one stream that repeat but for their token ids, read without parsing them.

Triton writes names, types and shapes of all outputs into every message; two messages with as many ids differ in these
ids alone. The place of the ids is found once, without knowledge of the layout: other ids are written where they may
stand, and the place is right if the parser then reads those. A later message is read at that place if all its other
bytes are equal. Every other message has to be parsed, so what is read does not depend on this module.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

LEARNED_MAX = 8
"""How many messages of a stream are learned. To learn one costs two more parsings of it, so a stream whose messages
never repeat pays for these few."""
LEARNED_BYTES_MAX = 4 * 2**10
PLACES_MAX = 8
"""In how many places of a message its ids are looked for: an id of 0 may stand anywhere."""
_OTHER = 0x5A5A5A
"""Makes another id of an id."""

ReadIds = Callable[[bytes], Sequence[int] | None]
"""Parses a message, and returns its ids; None if it has none."""


class _Form(NamedTuple):
    """The bytes before and behind the ids in messages of one length, and the layout of the ids."""

    head: bytes
    tail: bytes
    ids: struct.Struct


class RepeatedMessages:
    """The forms of the messages of one stream, by their length."""

    def __init__(self) -> None:
        self._forms: dict[int, _Form] = {}
        self._learned = 0

    def ids_in(self, message: bytes) -> list[int] | None:
        """The ids of a message that repeats a learned one; None if it has to be parsed."""
        form = self._forms.get(len(message))
        if form is None:
            return None
        if not (message.startswith(form.head) and message.endswith(form.tail)):
            return None
        ids = [*form.ids.unpack_from(message, len(form.head))]
        return ids if min(ids) >= 0 else None

    def learn(self, message: bytes, ids: Sequence[int], read_ids: ReadIds) -> None:
        """Learns the form of a message that has these ids, if it can be told."""
        if self._learned >= LEARNED_MAX or len(message) > LEARNED_BYTES_MAX:
            return
        self._learned += 1
        others = [token_id ^ _OTHER for token_id in ids]
        for form in _forms(message, ids):
            if read_ids(form.head + form.ids.pack(*others) + form.tail) == others:
                self._forms[len(message)] = form
                return


def _forms(message: bytes, ids: Sequence[int]) -> Iterator[_Form]:
    """The forms that a message with these ids may have."""
    layout = struct.Struct(f"={len(ids)}i")  # as `triton_wire.Outputs` reads them
    written, start = layout.pack(*ids), -1
    for _ in range(PLACES_MAX):
        start = message.find(written, start + 1)
        if start < 0:
            return
        yield _Form(message[:start], message[start + len(written) :], layout)
