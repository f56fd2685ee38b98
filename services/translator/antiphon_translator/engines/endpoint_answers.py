"""The answers of one model's endpoints to the question for their controls. Endpoints are asked in the background, and
their answers are remembered. A turn never waits for an endpoint while another one serves: a server that hangs takes its
whole time limit to answer, and no turn shall spend that.

An endpoint is in doubt until its first answer, and again when the time of its ejection is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from copy import copy

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, EngineUnavailable
from antiphon_translator.engines.base import DOWN_WAIT_S, Engine
from antiphon_translator.engines.endpoint_choice import Endpoint, EndpointChoice

log = logging.getLogger(__name__)

GRACE_S = 0.25
"""How long the first turn waits for the other endpoints, once one has answered."""

Question = asyncio.Task[AntiphonError | None]
"""The result is the reason why an endpoint cannot serve; None when it can."""


class EndpointAnswers:
    """The answers of one model's endpoints, and the questions that are under way."""

    def __init__(self, engines: Mapping[str, Engine], choice: EndpointChoice, clock: Clock) -> None:
        self._engines = engines
        self._choice = choice
        self._clock = clock
        self._controls: dict[str, frozenset[str]] = {}
        self._asking: dict[str, Question] = {}
        self._faults: dict[str, AntiphonError] = {}
        """The error for which each endpoint was left out last."""

    def unknown(self) -> list[str]:
        """The names of the endpoints that have not answered yet."""
        return [name for name in self._engines if name not in self._controls]

    def controls(self) -> frozenset[str]:
        """The controls that all endpoints in use have in common, or all endpoints that answered when none is in use. At
        least one endpoint has answered."""
        heard = [endpoint for endpoint in self._choice.endpoints if endpoint.name in self._controls]
        in_use = [endpoint for endpoint in heard if not endpoint.is_out] or heard
        return frozenset.intersection(*(self._controls[endpoint.name] for endpoint in in_use))

    async def enough_to_serve(self) -> None:
        """Asks the endpoints in doubt, and waits only when no other endpoint is in use; where all are left out, for
        DOWN_WAIT_S at most. Raises an endpoint's error when none can serve."""
        asked, endpoints = self.ask_those_in_doubt(), self._choice.endpoints
        if any(not endpoint.is_out and endpoint.name in self._controls for endpoint in endpoints):
            return
        asked = asked or [self._ask(endpoint) for endpoint in self._choice.available()]
        try:
            async with asyncio.timeout(DOWN_WAIT_S if all(endpoint.is_out for endpoint in endpoints) else None):
                await self._first(asked)
        except TimeoutError:
            fault = self._faults.get(self._choice.available()[0].name)
            raise copy(fault or EngineUnavailable("No endpoint of the model answers.")) from None

    async def any_ready(self) -> None:
        """Asks all endpoints, and returns when one is ready. Raises an endpoint's error when none is."""
        await self._first([self._ask(endpoint) for endpoint in self._choice.endpoints])

    def ask_those_in_doubt(self) -> list[Question]:
        now = self._clock.monotonic()
        return [
            self._ask(endpoint)
            for endpoint in self._choice.endpoints
            if endpoint.is_due(now) or not (endpoint.is_out or endpoint.name in self._controls)
        ]

    def leave_out(self, endpoint: Endpoint, error: AntiphonError) -> None:
        """Ejects an endpoint that failed with this error."""
        self._faults[endpoint.name] = error
        pause_s = endpoint.eject(self._clock.monotonic())
        log.warning("%s is left out for %.1f s: %s", endpoint.name, pause_s, error.message)

    async def close(self) -> None:
        """Cancels all questions; tasks that wait for an answer get an error."""
        for question in self._asking.values():
            question.cancel()
        if self._asking:
            await asyncio.wait(self._asking.values())

    def _ask(self, endpoint: Endpoint) -> Question:
        """Asks an endpoint, unless a question to it is under way: there is one at a time."""
        if endpoint.name not in self._asking:
            question = asyncio.create_task(self._answer(endpoint))
            self._asking[endpoint.name] = question
            question.add_done_callback(lambda _: self._asking.pop(endpoint.name))
        return self._asking[endpoint.name]

    async def _answer(self, endpoint: Endpoint) -> AntiphonError | None:
        engine = self._engines[endpoint.name]
        try:
            await engine.ready()
            self._controls[endpoint.name] = await engine.controls()
        except AntiphonError as error:
            self.leave_out(endpoint, error)
            return error
        if endpoint.is_due(self._clock.monotonic()):
            log.info("%s is back", endpoint.name)
            endpoint.is_out = False
        return None

    async def _first(self, asked: Sequence[Question]) -> None:
        """Waits for one that can serve, and a moment for the others."""
        waiting = set(asked)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(_error_of(question) is None for question in done):
                if waiting:
                    await asyncio.wait(waiting, timeout=GRACE_S)
                return
        for question in asked:
            if (error := _error_of(question)) is not None:
                raise error


def _error_of(question: Question) -> AntiphonError | None:
    if question.cancelled():  # by `close`, which is to cancel nobody who waits
        return EngineUnavailable("The endpoints of the model are closed.")
    return question.result()
