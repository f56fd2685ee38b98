"""The turns of connections that have more to handle."""

from __future__ import annotations

import asyncio

import pytest

from antiphon_http2.server.read_turns import ReadTurns


async def test_connections_take_turns_one_step_in_each_iteration_of_the_loop() -> None:
    turns, taken = ReadTurns(), list[str]()
    left = {"a": 3, "b": 1}

    def step(name: str) -> None:
        taken.append(name)
        left[name] -= 1
        if left[name]:
            turns.add(lambda: step(name))

    turns.add(lambda: step("a"))
    turns.add(lambda: step("b"))
    for count in range(5):
        assert len(taken) == min(count, 4)
        await asyncio.sleep(0)
    assert taken == ["a", "b", "a", "a"]


async def test_a_step_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    turns, taken = ReadTurns(), list[str]()

    def fail() -> None:
        raise ZeroDivisionError

    turns.add(fail)
    turns.add(lambda: taken.append("next"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert taken == ["next"]
    assert "ZeroDivisionError" in caplog.text
