"""The bytes that turns hold in a translator until they end: requests with their histories, fetched images and files.

Edges count their own turns. Several of them may send the turns of one tenant to the same translator, and images are
fetched only here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from antiphon_core.byte_budget import ByteBudget, Tally
from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.ports.translator import Turn
from antiphon_translator.media.downloads import Download, Downloads

_NO_ROOM = "The turns of this translator hold as many bytes as it has room for (turns_bytes_max). Try again."


class TurnTally(Tally):
    """The bytes of one turn. A context manager, as its base class."""

    def __init__(self, budget: ByteBudget, holder: str, make_room: Callable[[], None]) -> None:
        """`make_room` gives back at once the bytes of all that no turn waits for."""
        super().__init__(budget, holder)
        self._make_room = make_room

    def add(self, size: int) -> None:
        """Counts more bytes. TranslatorUnavailable: there is no room for them. Another translator may have room."""
        if self._budget.excess(self._holder, size) is not None:
            self._make_room()
        if self.try_add(size) is not None:
            raise TranslatorUnavailable(_NO_ROOM)

    def add_downloads(self, downloads: Downloads) -> None:
        self.add(sum(len(each.content) for each in downloads.values() if isinstance(each, Download)))


class TurnBytes:
    """The bytes of all turns of a translator."""

    def __init__(self, bytes_max: int) -> None:
        self._budget = ByteBudget("turns", total=bytes_max)
        self._spare: dict[Tally, Callable[[], object]] = {}
        """The bytes that a turn may have instead, each with what ends their use."""

    @contextmanager
    def count_turn(self, turn: Turn) -> Iterator[TurnTally]:
        """Counts a turn while the context is open. TranslatorUnavailable: as in `TurnTally.add`."""
        with TurnTally(self._budget, turn.tenant, self._take_back) as tally:
            tally.add(turn.size_bytes)
            yield tally

    @contextmanager
    def count_spare(self, turn: Turn, end: Callable[[], object]) -> Iterator[bool]:
        """Counts a turn that has ended while the context is open, unless there is no room for it, or False. `end` is
        called once a turn needs the room: then the bytes count no more."""
        if self._budget.excess(turn.tenant, turn.size_bytes) is not None:
            yield False
            return
        with Tally(self._budget, turn.tenant) as tally:
            tally.add(turn.size_bytes)
            self._spare[tally] = end
            try:
                yield True
            finally:
                self._spare.pop(tally, None)

    def _take_back(self) -> None:
        spare, self._spare = self._spare, {}
        for tally, end in spare.items():
            tally.clear()
            end()
