"""The turns of connections that have more to handle."""

from __future__ import annotations

import asyncio

import pytest

from antiphon_http2.server.read_turns import ITEM_S, ReadTurn, ReadTurns

ITEMS = 50
REST_S = ITEMS * ITEM_S


class Connection:
    """A connection that handles its letters one by one, into `taken`."""

    def __init__(self, turns: ReadTurns, taken: list[str]) -> None:
        self.turn = ReadTurn(self, turns)
        self.letters = ""
        self._taken = taken

    @property
    def has_unread(self) -> bool:
        return bool(self.letters)

    def step(self, data: bytes) -> int:
        letters = self.letters + data.decode()
        if letters.startswith("!"):
            raise ZeroDivisionError
        self._taken.append(letters[0])
        self.letters = letters[1:]
        return ITEMS


class Turns:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.all = ReadTurns(lambda: self.now_s)
        self.taken: list[str] = []

    def connection(self) -> Connection:
        return Connection(self.all, self.taken)

    async def iterate(self, count: int = 1) -> str:
        """Runs iterations of the event loop, and returns what was taken so far."""
        for _ in range(count):
            await asyncio.sleep(0)
        return "".join(self.taken)


@pytest.fixture
def turns() -> Turns:
    return Turns()


async def test_first_step_is_taken_at_once_and_the_others_one_in_each_iteration(turns: Turns) -> None:
    first, second = turns.connection(), turns.connection()
    first.turn.read(b"abcd")
    second.turn.read(b"xyz")
    assert "".join(turns.taken) == "ax"
    assert (first.turn.is_waiting, second.turn.is_waiting) == (True, True)
    for taken in ("axb", "axby", "axbyc", "axbycz", "axbyczd", "axbyczd"):
        assert await turns.iterate() == taken
    assert (first.turn.is_waiting, second.turn.is_waiting) == (False, False)


async def test_line_rests_as_long_as_its_step_took_beside_an_active_connection(turns: Turns) -> None:
    flooding, calling = turns.connection(), turns.connection()
    flooding.turn.read(b"abcd")
    assert await turns.iterate() == "ab"
    calling.turn.read(b"x")
    assert await turns.iterate(20) == "abx"
    turns.now_s += REST_S
    assert await turns.iterate(2) == "abxcd"  # the other connection was active no more


async def test_line_rests_beside_a_connection_that_only_answers(turns: Turns) -> None:
    flooding, streaming = turns.connection(), turns.connection()
    flooding.turn.read(b"abcd")
    for taken in ("ab", "abc", "abcd"):
        assert await turns.iterate() == taken
        streaming.turn.note()
        assert await turns.iterate(5) == taken
        turns.now_s += REST_S


async def test_bytes_before_the_end_of_a_connections_rest_wait_in_the_line(turns: Turns) -> None:
    """A client could have evaded the line by small packets."""
    flooding, calling = turns.connection(), turns.connection()
    flooding.turn.read(b"a")
    flooding.turn.read(b"b")
    assert flooding.turn.is_waiting
    assert await turns.iterate() == "ab"
    flooding.turn.read(b"c")
    calling.turn.read(b"x")
    assert await turns.iterate(5) == "abx"
    turns.now_s += REST_S
    assert await turns.iterate() == "abxc"
    turns.now_s += REST_S
    flooding.turn.read(b"d")
    assert not flooding.turn.is_waiting


async def test_connection_that_begins_in_the_line_takes_no_step_at_once(turns: Turns) -> None:
    late, calling = turns.connection(), turns.connection()
    late.turn.begin_in_line()
    turns.now_s += 1_000 * REST_S
    late.turn.read(b"a")
    calling.turn.read(b"x")
    assert await turns.iterate() == "xa"
    turns.now_s += REST_S
    late.turn.read(b"b")
    assert "".join(turns.taken) == "xab"


async def test_a_step_that_fails_stops_no_other(turns: Turns, caplog: pytest.LogCaptureFixture) -> None:
    failing, other = turns.connection(), turns.connection()
    failing.turn.read(b"a!")
    other.turn.read(b"xy")
    assert await turns.iterate(3) == "axy"
    assert "ZeroDivisionError" in caplog.text
