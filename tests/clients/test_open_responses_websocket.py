"""The cases of the Open Responses compliance suite for WebSocket, one test for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from openresponses_types.types import WebSocketErrorEvent

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from tests.clients.test_open_responses import said
from tests.clients.test_open_responses_compaction import TALK
from tests.support.http import Http
from tests.support.schema import validate_event, validate_response
from tests.support.scripted_system import MODEL, ScriptedSystem

WORD = "Remember the code word: cobalt. Reply with OK."
NOT_FOUND = "previous_response_not_found"


class Socket:
    """One connection."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse, model: str) -> None:
        self._connection = connection
        self._model = model

    async def turn(self, given: Any, **members: Any) -> list[Object]:
        """Runs one turn and returns its events, each validated against the schema."""
        request = {"type": "response.create", "model": self._model, "store": False, "input": given} | members
        await self._connection.send_str(dumps(request).decode())
        log: list[Object] = []
        while not log or log[-1]["type"] not in {*events.TERMINAL, events.ERROR}:
            log.append(loads(await self._connection.receive_str(timeout=60)))
            if log[-1]["type"] == events.ERROR:
                WebSocketErrorEvent.model_validate(log[-1])
            else:
                validate_event(log[-1])
        return log

    async def completed(self, given: Any, **members: Any) -> Object:
        """Runs a turn that must complete, and returns its response."""
        log = await self.turn(given, **members)
        assert log[-1]["type"] == events.COMPLETED, log[-1]
        response: Object = log[-1]["response"]
        validate_response(response)
        return response


@asynccontextmanager
async def connected(http: Http, model: str) -> AsyncIterator[Socket]:
    async with http.session.ws_connect(http.url + "/v1/responses") as connection:
        yield Socket(connection, model)


def error_code(log: list[Object]) -> str | None:
    """Returns the error code of a failed turn, from an error event or a failed response."""
    ended = log[-1]
    error = ended["error"] if ended["type"] == events.ERROR else ended["response"]["error"]
    code: str | None = error["code"] if error else None
    return code


async def test_websocket_response(served: Http, model: str) -> None:
    async with connected(served, model) as socket:
        log = await socket.turn([said("user", "Count from 1 to 3.")], store=True)
    assert log[-1]["type"] == events.COMPLETED
    validate_response(log[-1]["response"])
    assert [event["sequence_number"] for event in log] == list(range(len(log)))


async def test_websocket_sequential_responses(served: Http, model: str) -> None:
    async with connected(served, model) as socket:
        first = await socket.completed("Reply with exactly: first")
        second = await socket.completed("Reply with exactly: second")
    assert first["id"] != second["id"]


async def test_websocket_continuation(served: Http, model: str) -> None:
    async with connected(served, model) as socket:
        first = await socket.completed(WORD)
        second = await socket.completed("Which word?", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]


async def test_earlier_turns_of_the_connection_reach_the_model(scripted: ScriptedSystem) -> None:
    async with connected(scripted.http, MODEL) as socket:
        first = await socket.completed(WORD)
        await socket.completed("Which word?", previous_response_id=first["id"])
    assert WORD in scripted.model.prompts[-1]


async def test_websocket_reconnect_store_false_recovery(served: Http, model: str) -> None:
    async with connected(served, model) as socket:
        first = await socket.completed(WORD)
    async with connected(served, model) as socket:
        log = await socket.turn("Which word?", previous_response_id=first["id"])
        assert error_code(log) == NOT_FOUND
        await socket.completed("A clean turn.")


async def test_websocket_previous_response_not_found(served: Http, model: str) -> None:
    async with connected(served, model) as socket:
        log = await socket.turn("This should fail.", previous_response_id="resp_openresponses_missing_1")
    assert error_code(log) == NOT_FOUND


async def test_websocket_failed_continuation_evicts_cache(served: Http, model: str) -> None:
    async with connected(served, model) as socket:
        first = await socket.completed(WORD)
        result = {"type": "function_call_output", "call_id": "call_openresponses_missing", "output": "nothing"}
        failed = await socket.turn([result], previous_response_id=first["id"])
        assert failed[-1]["type"] in (events.ERROR, events.FAILED)
        third = await socket.turn("Which word?", previous_response_id=first["id"])
    assert error_code(third) == NOT_FOUND


async def test_websocket_compact_new_chain(served: Http, model: str) -> None:
    answer = await served.post("/v1/responses/compact", {"model": model, "input": TALK})
    assert answer.status == 200, answer.body
    async with connected(served, model) as socket:
        await socket.completed([*answer.json["output"], said("user", "Go on from here.")])
