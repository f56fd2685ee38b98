"""Background probes of one model's endpoints: whether each is ready, and which controls it has.

The results are remembered. A turn waits for no probe while another endpoint can serve: the probe of a server that hangs
takes its whole timeout. A probe of an endpoint is due until its first answer, and again when its ejection may end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from copy import copy

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, EngineFault, EngineUnavailable
from antiphon_translator.engines.base import DOWN_WAIT_S, Engine
from antiphon_translator.engines.endpoint_choice import FAULTS_TO_EJECT, Endpoint, EndpointChoice

log = logging.getLogger(__name__)

GRACE_S = 0.25
"""Seconds that the first turn waits for the other endpoints, once one has answered."""

Probe = asyncio.Task[AntiphonError | None]
"""The result is the reason why an endpoint cannot serve; None when it can."""


class EndpointProbes:
    """The probes of one model's endpoints, and the latest result of each."""

    def __init__(self, engines: Mapping[str, Engine], choice: EndpointChoice, clock: Clock) -> None:
        self._engines = engines
        self._choice = choice
        self._clock = clock
        self._controls: dict[str, frozenset[str]] = {}
        self._running: dict[str, Probe] = {}
        self._faults: dict[str, AntiphonError] = {}
        """The error for which each endpoint was last ejected."""

    def unanswered_endpoints(self) -> list[str]:
        """The names of the endpoints that have not answered yet."""
        return [name for name in self._engines if name not in self._controls]

    def controls(self) -> frozenset[str]:
        """The controls that all endpoints in use have in common, or all endpoints that answered when none is in use. At
        least one endpoint must have answered."""
        answered = [endpoint for endpoint in self._choice.endpoints if endpoint.name in self._controls]
        in_use = [endpoint for endpoint in answered if not endpoint.is_ejected] or answered
        return frozenset.intersection(*(self._controls[endpoint.name] for endpoint in in_use))

    async def require_one(self) -> None:
        """Starts the probes that are due. Returns at once when an endpoint is in use, else when a probe succeeds.

        Raises an endpoint's error when all probes fail, or, where all endpoints are ejected, after DOWN_WAIT_S."""
        probes, endpoints = self.start_due(), self._choice.endpoints
        if any(not endpoint.is_ejected and endpoint.name in self._controls for endpoint in endpoints):
            return
        probes = probes or [self._start(endpoint) for endpoint in self._choice.available()]
        try:
            async with asyncio.timeout(DOWN_WAIT_S if all(endpoint.is_ejected for endpoint in endpoints) else None):
                await self._first_success(probes)
        except TimeoutError:
            fault = self._faults.get(self._choice.available()[0].name)
            raise copy(fault or EngineUnavailable("No endpoint of the model answers.")) from None

    async def any_ready(self) -> None:
        """Probes all endpoints, and returns when one is ready. Raises an endpoint's error when none is."""
        await self._first_success([self._start(endpoint) for endpoint in self._choice.endpoints])

    def start_due(self) -> list[Probe]:
        """Starts the probes that are due."""
        now = self._clock.monotonic()
        return [
            self._start(endpoint)
            for endpoint in self._choice.endpoints
            if endpoint.is_due(now) or not (endpoint.is_ejected or endpoint.name in self._controls)
        ]

    def eject(self, endpoint: Endpoint, error: AntiphonError) -> None:
        """Ejects an endpoint that failed with this error."""
        self._faults[endpoint.name] = error
        pause_s = endpoint.eject(self._clock.monotonic())
        log.warning("%s is ejected for %.1f s: %s", endpoint.name, pause_s, error.message)

    def fault(self, endpoint: Endpoint, error: EngineFault) -> None:
        """Counts an error that an endpoint answered with, and ejects the endpoint after FAULTS_TO_EJECT in a row.

        A later turn gets EngineUnavailable, which a worker retries, instead of the fault of another turn."""
        if endpoint.fault():
            message = f"The engine answered with {FAULTS_TO_EJECT} errors in a row; the last one: {error.message}"
            self.eject(endpoint, EngineUnavailable(message))

    async def close(self) -> None:
        """Cancels all probes; tasks that wait for one get an error."""
        for probe in self._running.values():
            probe.cancel()
        if self._running:
            await asyncio.wait(self._running.values())

    def _start(self, endpoint: Endpoint) -> Probe:
        """Starts a probe of an endpoint, or returns the one that runs: there is one at a time."""
        if endpoint.name not in self._running:
            probe = asyncio.create_task(self._probe(endpoint))
            self._running[endpoint.name] = probe
            probe.add_done_callback(lambda _: self._running.pop(endpoint.name))
        return self._running[endpoint.name]

    async def _probe(self, endpoint: Endpoint) -> AntiphonError | None:
        engine = self._engines[endpoint.name]
        try:
            await engine.ready()
            self._controls[endpoint.name] = await engine.controls()
        except AntiphonError as error:
            self.eject(endpoint, error)
            return error
        if endpoint.is_due(self._clock.monotonic()):
            log.info("%s is in use again", endpoint.name)
            endpoint.is_ejected = False
        return None

    async def _first_success(self, probes: Sequence[Probe]) -> None:
        """Waits until a probe succeeds, then GRACE_S for the others. Raises the error of the first one if all fail."""
        waiting = set(probes)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(_error_of(probe) is None for probe in done):
                if waiting:
                    await asyncio.wait(waiting, timeout=GRACE_S)
                return
        for probe in probes:
            if (error := _error_of(probe)) is not None:
                raise error


def _error_of(probe: Probe) -> AntiphonError | None:
    if probe.cancelled():  # by `close`, which must not cancel the tasks that wait for the probe
        return EngineUnavailable("The endpoints of the model are closed.")
    return probe.result()
