from __future__ import annotations

import asyncio

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import EngineFault, EngineTimeout, EngineUnavailable
from antiphon_translator.engines import endpoint_probes
from antiphon_translator.engines.endpoint_choice import EJECT_FIRST_S, FAULTS_TO_EJECT, EndpointChoice
from antiphon_translator.engines.endpoint_probes import EndpointProbes
from antiphon_translator.engines.scripted import ScriptedEngine
from tests.support.waiting import WAIT_MAX_S

LATER_S = 60.0


class Server(ScriptedEngine):
    """An engine whose readiness probe waits for `is_up`."""

    def __init__(self, controls: str, *, hangs: bool = False) -> None:
        super().__init__([], controls=frozenset(controls))
        self.times_probed = 0
        self.is_up = asyncio.Event()
        if not hangs:
            self.is_up.set()

    async def ready(self) -> None:
        self.times_probed += 1
        await self.is_up.wait()
        await super().ready()


class Fleet:
    """Servers, named a, b, c."""

    def __init__(self, *servers: Server) -> None:
        self.servers = servers
        self.clock = ManualClock()
        self.choice = EndpointChoice("abc"[: len(servers)])
        self.probes = EndpointProbes(dict(zip("abc", servers, strict=False)), self.choice, self.clock)

    async def controls(self) -> str:
        async with asyncio.timeout(WAIT_MAX_S):
            await self.probes.require_one()
        await answered()
        return "".join(sorted(self.probes.controls()))

    def ejected(self) -> str:
        return "".join(endpoint.name for endpoint in self.choice.endpoints if endpoint.is_ejected)


async def answered() -> None:
    """Waits until the probes in the background have results."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_each_endpoint_is_probed_once() -> None:
    fleet = Fleet(Server("xy"), Server("yz"))
    assert fleet.probes.unanswered_endpoints() == ["a", "b"]
    assert [await fleet.controls() for _ in range(3)] == ["y", "y", "y"]
    assert [server.times_probed for server in fleet.servers] == [1, 1]
    assert fleet.probes.unanswered_endpoints() == []


async def test_hanging_endpoint_delays_no_turn_while_another_serves() -> None:
    fleet = Fleet(Server("xy", hangs=True), Server("yz"))
    assert [await fleet.controls() for _ in range(3)] == ["yz", "yz", "yz"]
    assert fleet.probes.unanswered_endpoints() == ["a"]
    assert fleet.servers[0].times_probed == 1, "one probe runs at a time"
    fleet.servers[0].is_up.set()
    await answered()
    assert (await fleet.controls(), fleet.probes.unanswered_endpoints()) == ("y", [])


async def test_ejected_endpoint_is_probed_when_its_pause_ends_and_returns_with_the_success() -> None:
    fleet = Fleet(Server("xy"), Server("yz"))
    await fleet.controls()
    fleet.servers[0].is_up.clear()
    fleet.probes.eject(fleet.choice.endpoints[0], EngineTimeout("silence"))
    assert (await fleet.controls(), fleet.servers[0].times_probed) == ("yz", 1)
    fleet.clock.advance(EJECT_FIRST_S)
    assert (await fleet.controls(), fleet.servers[0].times_probed, fleet.ejected()) == ("yz", 2, "a")
    fleet.servers[0].is_up.set()
    await answered()
    assert (fleet.ejected(), await fleet.controls()) == ("", "y")


async def test_with_all_endpoints_ejected_a_turn_fails_and_the_probe_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint_probes, "DOWN_WAIT_S", 0.01)
    fleet = Fleet(Server("x"))
    await fleet.controls()
    fleet.servers[0].is_up.clear()
    fleet.probes.eject(fleet.choice.endpoints[0], EngineTimeout("silence"))
    for _ in range(2):
        with pytest.raises(EngineTimeout, match="silence"):
            await fleet.controls()
    assert fleet.servers[0].times_probed == 2
    fleet.servers[0].is_up.set()
    assert await fleet.controls() == "x"


async def test_faults_in_a_row_eject_with_a_log_line_and_a_retryable_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoint_probes, "DOWN_WAIT_S", 0.01)
    fleet = Fleet(Server("x"))
    await fleet.controls()
    fleet.servers[0].is_up.clear()
    for _ in range(FAULTS_TO_EJECT):
        assert (fleet.ejected(), caplog.messages) == ("", [])
        fleet.probes.fault(fleet.choice.endpoints[0], EngineFault("out of paper"))
    assert fleet.ejected() == "a"
    assert caplog.messages == [
        "a is ejected for 1.0 s: The engine answered with 5 errors in a row; the last one: out of paper"
    ]
    with pytest.raises(EngineUnavailable, match="5 errors in a row; the last one: out of paper"):
        await fleet.controls()


async def test_endpoint_that_fails_again_is_ejected_for_longer() -> None:
    fleet = Fleet(Server("x"), Server("x"))
    await fleet.controls()
    fleet.servers[0].unavailable = "down"
    fleet.probes.eject(fleet.choice.endpoints[0], EngineTimeout("silence"))
    fleet.clock.advance(EJECT_FIRST_S)
    await fleet.controls()
    pause_s = fleet.choice.endpoints[0].ejected_until - fleet.clock.monotonic()
    assert (fleet.ejected(), pause_s) == ("a", 2 * EJECT_FIRST_S)


async def test_with_all_endpoints_down_a_turn_probes_before_the_pause_ends() -> None:
    fleet = Fleet(Server("x"), Server("y"))
    for server in fleet.servers:
        server.unavailable = "down"
    with pytest.raises(EngineUnavailable, match="down"):
        await fleet.controls()
    assert fleet.ejected() == "ab"
    fleet.servers[0].unavailable = None
    assert await fleet.controls() == "x", "probed before its pause ends, because there is no other endpoint"
    assert fleet.ejected() == "ab"
    fleet.clock.advance(LATER_S)
    assert (await fleet.controls(), fleet.ejected()) == ("x", "b")


async def test_any_ready_returns_with_the_first_ready_endpoint() -> None:
    fleet = Fleet(Server("x", hangs=True), Server("x"))
    async with asyncio.timeout(WAIT_MAX_S):
        await fleet.probes.any_ready()
    fleet.servers[1].unavailable = "down"
    fleet.servers[0].unavailable = "down, too"
    fleet.servers[0].is_up.set()
    with pytest.raises(EngineUnavailable, match="down, too"):
        await fleet.probes.any_ready()


async def test_closing_raises_an_error_in_waiting_tasks_and_cancels_none() -> None:
    fleet = Fleet(Server("x", hangs=True))
    waiting = asyncio.create_task(fleet.controls())
    await answered()
    await fleet.probes.close()
    with pytest.raises(EngineUnavailable, match="closed"):
        await waiting
