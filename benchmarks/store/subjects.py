"""The stored data: responses with about 2 KB of items, one long line of them, and sessions of twenty turns."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from string import ascii_lowercase
from typing import Generic, TypeVar

from antiphon_core.ports.store import Record
from antiphon_store.testing.subject import draft, new_session_id

TENANT = "bench"
TEXT_CHARS = 1_900  # with ids and JSON this makes 2 KB of items
CHAIN_RECORDS = 1_000  # the responses of the long line with so much text; the others are small
LINE_RECORDS = 10_000
LONG_LINE = 0  # its number; sessions are counted from 1
SESSION_TURNS = 20

# Random letters: an engine that compresses its data must not find one letter two thousand times.
_LETTERS = "".join(random.Random(7).choices(ascii_lowercase + "   ", k=100_000))
_offsets = random.Random(11)
_numbers = count(LONG_LINE + 1)

Turn = TypeVar("Turn")
Start = TypeVar("Start")


def response(parent: Record | None = None, *, session_id: str | None = None) -> Record:
    start = _offsets.randrange(len(_LETTERS) - TEXT_CHARS)
    record = draft(parent, text=_LETTERS[start : start + TEXT_CHARS], session_id=session_id)
    return replace(
        record,
        body=_fitted(record.body),
        input_items=_fitted(record.input_items),
        output_items=_fitted(record.output_items),
    )


def _fitted(data: bytes) -> bytes:
    """Copies bytes to their exact size. The result of the JSON writer keeps its buffer, which is several times as
    large."""
    return bytes(bytearray(data))


def line_of(length: int, *, session_id: str | None = None) -> Iterator[Record]:
    """Yields a line of responses, each of which continues the one before."""
    parent = None
    for _ in range(length):
        parent = response(parent, session_id=session_id)
        yield parent


def new_line() -> int:
    """Returns an unused number of a line."""
    return next(_numbers)


@cache
def long_line() -> Sequence[Record]:
    """Returns the line from which chains are read and sessions forked."""
    line = list(line_of(CHAIN_RECORDS))
    while len(line) < LINE_RECORDS:
        line.append(draft(line[-1]))
    return line


@dataclass(slots=True)
class Session(Generic[Turn]):
    """A session and its remaining turns. `line` is its number among all lines."""

    id: str
    line: int
    turns: deque[Turn]


@dataclass(slots=True)
class Sessions(Generic[Turn]):
    """Sessions for callers, each of which uses a session alone during a turn. `make_turn` makes the arguments of a turn
    from the number of its session, the number of earlier turns, and its response."""

    make_turn: Callable[[int, int, Record], Turn]
    _idle: deque[Session[Turn]] = field(default_factory=deque)
    _planned: Iterator[int] = field(default_factory=count)

    def plan_turn(self) -> None:
        """Prepares a turn before the clock starts, so that no session is created during the measurement."""
        if next(self._planned) % SESSION_TURNS == 0:
            self._idle.append(self._new())

    async def run_turn(
        self,
        begin: Callable[[Session[Turn], Turn], Awaitable[Start]],
        commit: Callable[[Session[Turn], Turn, Start], Awaitable[object]],
    ) -> None:
        """Runs the next turn of an idle session."""
        session = self._idle.popleft() if self._idle else self._new()
        turn = session.turns.popleft()
        await commit(session, turn, await begin(session, turn))
        if session.turns:
            self._idle.append(session)

    def _new(self) -> Session[Turn]:
        session_id, line = new_session_id(), new_line()
        records = line_of(SESSION_TURNS, session_id=session_id)
        turns = (self.make_turn(line, depth, record) for depth, record in enumerate(records))
        return Session(session_id, line, deque(turns))
