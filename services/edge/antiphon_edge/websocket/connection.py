"""One open WebSocket: its socket, tasks and admission. Its protocol state is in lanes.py.

One task reads, so that pings, closes and invalid messages are answered while responses run. One task writes the
messages of the outbox, and waits until the client has read them. Each running response has a task of its own, which
ends when its last message is sent. When the client disconnects, running responses are cancelled. A client that does not
read for `write_timeout_s` is disconnected.

The stream slot of the connection covers one running response. Each further response takes a slot of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from antiphon_core import offload
from antiphon_core.byte_budget import Tally
from antiphon_core.errors import AntiphonError, InvalidApiKey, InvalidRequest, Unavailable
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import HostedTools
from antiphon_core.rpc.checked_stream import CHECK_INTERVAL_S
from antiphon_core.telemetry import remedies
from antiphon_core.tracebacks import release_frames
from antiphon_core.unexpected import as_antiphon_error
from antiphon_edge.callers import auditing, authentication
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.http import connections
from antiphon_edge.http.allowance import Allowance, Rate
from antiphon_edge.http.http_errors import FAILED
from antiphon_edge.http.socket_frames import Violation
from antiphon_edge.quotas.admission import limiter_of, long_work_of
from antiphon_edge.quotas.rate_limits import StreamSlot, hold_bytes
from antiphon_edge.routes import bodies, turn_headers
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.turn_runner import TurnRun
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.turns.turn_starter import TurnStarter
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket.lanes import Lanes, LaneTurn, Phase
from antiphon_edge.websocket.local_histories import LocalHistories
from antiphon_edge.websocket.messages import Cancel, Create
from antiphon_edge.websocket.outbox import LaneQueue, Outbox

log = logging.getLogger(__name__)

USELESS_RATE = Rate(burst=128, per_s=1)
"""Messages of one connection that begin nothing, because they are invalid or too many wait."""
TOO_MANY_USELESS = Violation(
    WSCloseCode.POLICY_VIOLATION,
    f"More messages failed than {USELESS_RATE.burst}, and {USELESS_RATE.per_s:g} a second.",
)
_Parsed = TypeVar("_Parsed")
_DATA = (WSMsgType.TEXT, WSMsgType.BINARY)


class Connection:
    """Serves one connection until either side closes it."""

    def __init__(
        self,
        request: web.Request,
        socket: web.WebSocketResponse,
        turns: TurnService,
        starter: TurnStarter,
        *,
        session_id: str | None,
        hosted: HostedTools,
        running_max: int,
    ) -> None:
        """`running_max`: lanes that run at once. With a `session_id` it is 1, since a session has one turn at a
        time."""
        self._request = request
        self._hosted = hosted
        self._socket = socket
        self._turns = turns
        self._starter = starter
        self._tenant = tenant_of(request)
        self._session_id = session_id
        self._limiter = limiter_of(request)
        self._waiting = bodies.tally_of(request)  # bytes of requests that wait for a running response
        self._write_timeout_s = connections.bounds_of(request).write_timeout_s
        self._kept = Tally(self._limiter.shedder.kept_bytes, self._tenant)  # histories for later turns
        histories = LocalHistories(self._kept)
        self._lanes = Lanes(histories, running_max=running_max if session_id is None else 1)
        self._outbox = Outbox()
        self._useless = Allowance(USELESS_RATE, asyncio.get_running_loop().time)
        self.served: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is closed."""
        self._close_code = WSCloseCode.OK
        self._writing: asyncio.Task[None] | None = None
        self._running: dict[LaneTurn, asyncio.Task[None]] = {}
        self._cancelled: set[LaneTurn] = set()  # cancelled by the client
        self._has_free_slot = True
        self._context = contextvars.copy_context()

    def expire(self, lifetime_s: float) -> None:
        """Closes the connection after its last response: it has reached its maximum age."""
        self._close(
            InvalidRequest(
                f"Responses websocket connection limit reached ({lifetime_s / 60:g} minutes). Create a new websocket "
                "connection to continue.",
                code="websocket_connection_limit_reached",
            ),
            say_so=True,
        )

    def leave(self) -> None:
        """Closes the connection after its last response, for a shutdown."""
        self._close_code = WSCloseCode.GOING_AWAY
        self._close(Unavailable.at_shutdown("Open a new connection."), say_so=False)

    def abort(self) -> None:
        """Cancels running responses, and closes the connection."""
        if self._writing is not None:
            self._writing.cancel()

    async def serve(self) -> None:
        """Serves the connection. Returns when either side has closed it."""
        reading = asyncio.create_task(self._read(), name="websocket reader")
        self._writing = writing = asyncio.create_task(self._write(), name="websocket writer")
        checking = asyncio.create_task(self._check_caller(), name="websocket caller")
        try:
            done, _ = await asyncio.wait([reading, writing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except ConnectionError:
            pass  # the client has disconnected
        except Exception:
            log.exception("a WebSocket connection broke", extra=remedies.REPORT)
            await self._socket.close(code=WSCloseCode.INTERNAL_ERROR)
        finally:
            self._cancelled.clear()  # no cancellation can be answered any more
            tasks = [reading, writing, checking, *self._running.values()]
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # the client may disconnect during the gather, which cancels this task
                self._waiting.clear()
                self._kept.clear()
                self._running.clear()
                self._writing = None  # its error refers to this connection, with all histories
                self.served.set_result(None)

    async def _check_caller(self) -> None:
        """Closes the connection after its last response when its API key is not valid any more. While keys cannot be
        checked, the connection stays open, and its next response is rejected."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                authentication.check_again(self._request)
            except InvalidApiKey as error:
                self._close_code = WSCloseCode.POLICY_VIOLATION
                self._close(error, say_so=False)
                return
            except Unavailable:
                pass

    async def _read(self) -> None:
        """Handles the client's messages until the connection ends, one in each iteration of the event loop: those that
        were read together are handed on without a pause."""
        async for message in self._socket:
            answers = await self._handle_message(message) if message.type in _DATA else []
            await self._send(answers)
            if answers and not self._useless.take():
                await self._socket.close(code=TOO_MANY_USELESS.code, message=TOO_MANY_USELESS.reason.encode())
                return
            await asyncio.sleep(0)

    async def _handle_message(self, message: WSMessage) -> list[bytes]:
        """Handles a message. Returns the messages to answer at once, which all are errors."""
        if message.type is WSMsgType.BINARY:
            error = InvalidRequest("Messages must be text, not binary.", field="message", code="invalid_type")
            return [socket_messages.error(error)]
        return await self._handle_text(message.data)

    async def _handle_text(self, text: str) -> list[bytes]:
        try:
            message = await self._parse(partial(socket_messages.parse, text), len(text))
        except AntiphonError as error:
            return [socket_messages.error(error)]
        if isinstance(message, Cancel):
            self._cancel(message)
            return []
        if isinstance(message, Create):
            try:
                self._waiting.add(message.size_bytes)
            except AntiphonError as error:
                return [socket_messages.error(error, message.stream_id)]
        answers = self._lanes.receive(message)
        self._begin_next()
        return answers

    async def _parse(self, parse: Callable[[], _Parsed], size_bytes: int) -> _Parsed:
        """Parses a message or a request, which counts as long work of the tenant if it is large. RequestRateExceeded:
        too much of it waits."""
        async with long_work_of(self._request).reserve(self._tenant, size_bytes):
            return await offload.run(parse, size_bytes=size_bytes)

    def _cancel(self, message: Cancel) -> None:
        """Cancels the running response of a lane. Does nothing if it has ended: the client gets its terminal event."""
        turn = self._lanes.turn_of(message)
        if turn is not None and turn not in self._cancelled:
            self._cancelled.add(turn)
            # Not at once: a task that is cancelled before its first step never runs, and its lane would stay taken.
            asyncio.get_running_loop().call_soon(self._stop, turn)

    def _stop(self, turn: LaneTurn) -> None:
        """Cancels the task of a cancelled response, unless the response has ended meanwhile."""
        if turn in self._cancelled and not turn.has_ended:
            self._running[turn].cancel()

    def _begin_next(self) -> None:
        """Begins every response that can begin. The bytes of their requests no longer count as waiting."""
        while (turn := self._lanes.begin()) is not None:
            task = asyncio.create_task(self._run(turn), name="websocket turn", context=self._context.copy())
            self._running[turn] = task
        self._waiting.shrink_to(self._lanes.waiting_bytes)

    async def _run(self, turn: LaneTurn) -> None:
        """Runs one response, and begins the next ones when its last message is sent."""
        queue = LaneQueue(self._outbox)
        queue.put(await self._run_to_end(turn, queue))
        await queue.wait_until_sent()
        del self._running[turn]
        self._cancelled.discard(turn)
        self._lanes.leave(turn)
        self._begin_next()
        if self._lanes.phase is Phase.OVER:
            self._outbox.close()

    async def _run_to_end(self, turn: LaneTurn, queue: LaneQueue) -> list[bytes]:
        """Runs a response. Returns error messages if it failed or was cancelled, so that it has no terminal event."""
        try:
            with auditing.audited_turn(self._request):
                await self._answer(turn, queue)
        except asyncio.CancelledError:
            if turn not in self._cancelled:
                raise
            return self._lanes.cancel(turn)
        except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a message
            messages = self._lanes.fail(turn, self._fault_of(error))
            release_frames(error)
            return messages
        return []

    def _fault_of(self, error: Exception) -> AntiphonError:
        """The error that the client gets for an exception of a turn. One about its API key closes the connection."""
        if isinstance(error, InvalidApiKey):
            self._close_code = WSCloseCode.POLICY_VIOLATION
            self._close(error, say_so=False)
        return as_antiphon_error(error, "a response over a WebSocket", FAILED)

    async def _answer(self, turn: LaneTurn, queue: LaneQueue) -> None:
        await queue.wait_for_room()
        carried = self._lanes.carried_by(turn)
        authentication.check_again(self._request)
        parse = partial(turn.create.request, hosted=self._hosted)
        request = await self._parse(parse, turn.create.work_bytes)
        async with self._admit():
            hold_bytes(turn.create.work_bytes)
            await self._generate(turn, queue, request, carried)

    @asynccontextmanager
    async def _admit(self) -> AsyncIterator[None]:
        """Admits a response. The first one uses the connection's stream slot, others take slots of their own."""
        if not self._has_free_slot:
            async with self._limiter.running(self._tenant, generates=True):
                yield
            return
        self._has_free_slot = False
        try:
            await self._limiter.admit(self._tenant, generates=True)
            turn = await self._limiter.shedder.begin(self._tenant)
            with StreamSlot(turn.end, turn).occupy():
                yield
        finally:
            self._has_free_slot = True

    async def _generate(self, turn: LaneTurn, queue: LaneQueue, request: CreateRequest, carried: bytes | None) -> None:
        accepted = await self._begin(turn, request, carried)

        def receive(batch: Batch) -> None:
            if batch.final is not None:
                self._lanes.end(turn, accepted, batch.final)
            queue.put(turn.messages_of(batch.frames))

        run = TurnRun(accepted, receive, queue.flow, with_context=False, on_ending=turn.note_end)
        await self._turns.run(run)

    async def _begin(self, turn: LaneTurn, body: CreateRequest, carried: bytes | None) -> AcceptedTurn:
        request, session_id = turn_headers.with_session(body, self._session_id)
        accepted = await self._starter.begin(self._tenant, request, session_id=session_id, carried=carried)
        if not isinstance(accepted, AcceptedTurn):
            raise AssertionError("only a request with an idempotency key can be a retry")
        turn.response_id = accepted.response_id
        return accepted

    async def _write(self) -> None:
        """Sends the messages of the outbox until the outbox is closed, then closes the connection."""
        while messages := await self._outbox.take():
            await self._send(messages)
        await self._send(self._lanes.farewell())
        await self._socket.close(code=self._close_code)

    async def _send(self, messages: Sequence[bytes]) -> None:
        """Sends messages. ConnectionError: the client has disconnected, or exceeds the write timeout."""
        try:
            async with asyncio.timeout(self._write_timeout_s):
                for message in messages:
                    await self._socket.send_frame(message, WSMsgType.TEXT)
        except TimeoutError:
            connections.cut(self._request)
            raise ConnectionResetError("The client does not read.") from None

    def _close(self, error: AntiphonError, *, say_so: bool) -> None:
        self._lanes.close(error, say_so=say_so)
        if self._lanes.phase is Phase.OVER:
            self._outbox.close()
