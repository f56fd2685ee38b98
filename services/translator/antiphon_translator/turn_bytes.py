"""The bytes that turns hold in a translator until they end: requests with their histories, fetched images and files.

Edges count their own turns. Several of them may send the turns of one tenant to the same translator, and images are
fetched only here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_core.byte_budget import ByteBudget, Tally
from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.ports.translator import Turn
from antiphon_translator.media.downloads import Download, Downloads

_NO_ROOM = "The turns of this translator hold as many bytes as it has room for (turns_bytes_max). Try again."


class TurnTally(Tally):
    """The bytes of one turn. A context manager, as its base class."""

    def add(self, size: int) -> None:
        """Counts more bytes. TranslatorUnavailable: there is no room for them. Another translator may have room."""
        if self.try_add(size) is not None:
            raise TranslatorUnavailable(_NO_ROOM)

    def add_downloads(self, downloads: Downloads) -> None:
        self.add(sum(len(each.content) for each in downloads.values() if isinstance(each, Download)))


class TurnBytes:
    """The bytes of all turns of a translator."""

    def __init__(self, bytes_max: int) -> None:
        self._budget = ByteBudget("turns", total=bytes_max)

    @contextmanager
    def count_turn(self, turn: Turn) -> Iterator[TurnTally]:
        """Counts a turn while the context is open. TranslatorUnavailable: as in `TurnTally.add`."""
        with TurnTally(self._budget, turn.tenant) as tally:
            tally.add(turn.size_bytes)
            yield tally
