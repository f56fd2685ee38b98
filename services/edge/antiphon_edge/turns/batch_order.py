"""The order of a translator's batches: dense and increasing sequence numbers, and one terminal batch at the end.

The check is the same for a translator in this process and in another one. It reads the numbers that are in the frames,
because clients and the event log get the frames unchanged. It takes a microsecond for each batch.
"""

from __future__ import annotations

from antiphon_core.errors import ServiceFault
from antiphon_core.ports.translator import Batch

_FRAME_END = b"\n\n"  # JSON has no line feeds, so a blank line is always the end of a frame
_NUMBER = b'"sequence_number":'


class BatchOrder:
    """Checks the batches of one stream, which begins with the event `next_sequence`."""

    def __init__(self, next_sequence: int) -> None:
        self._next_sequence = next_sequence
        self._has_ended = False

    def check(self, batch: Batch) -> None:
        """ServiceFault: the batch does not follow the one before, or its frames are not those that it says."""
        first, count, frames = batch.first_sequence, batch.count, batch.frames
        if self._has_ended:
            raise _fault(f"the event {first} after the terminal one")
        if first != self._next_sequence or count < 1:
            raise _fault(f"{count} events from {first}, where {self._next_sequence} was the next one")
        last = frames.rfind(_FRAME_END, 0, -len(_FRAME_END))
        is_whole = frames.endswith(_FRAME_END) and frames.count(_FRAME_END) == count
        if (
            not is_whole
            or not _has_number(frames, 0, first)
            or not _has_number(frames, max(last, 0), first + count - 1)
        ):
            raise _fault(f"frames that are not the {count} events from {first}")
        self._next_sequence = first + count
        self._has_ended = batch.final is not None


def _has_number(frames: bytes, start: int, number: int) -> bool:
    """Whether the first sequence number after `start` is `number`."""
    at = frames.find(_NUMBER, start) + len(_NUMBER)
    digits = b"%d" % number
    return frames.startswith(digits, at) and not frames[at + len(digits) : at + len(digits) + 1].isdigit()


def _fault(sent: str) -> ServiceFault:
    return ServiceFault(f"The translator sent {sent}.")
