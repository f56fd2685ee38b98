"""GET /v1/responses as a WebSocket: turns over one connection. What is said over it is session.py's business.

Two tasks serve a connection: one reads, so that pings, closes and refusals are answered while a response runs; the
other runs one response after the other, and waits for the client to take each batch before it asks for the next. A
client that goes away stops the model; one that takes nothing for a while is cut off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from aiohttp import WSCloseCode, WSMsgType, web

from antiphon_core import offload
from antiphon_core.errors import AntiphonError, InternalError, InvalidApiKey, InvalidRequest, Unavailable
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_core.telemetry import metrics, remedies
from antiphon_edge.callers import auditing, authentication
from antiphon_edge.callers.tenancy import tenant_of
from antiphon_edge.http import connections, pages
from antiphon_edge.quotas.admission import limiter_of
from antiphon_edge.routes import bodies, response_list, sessions
from antiphon_edge.routes.response_list import ResponseList
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket import subprotocols
from antiphon_edge.websocket.messages import Create
from antiphon_edge.websocket.outbox import Outbox
from antiphon_edge.websocket.session import Asked, Phase, Session
from antiphon_edge.websocket.warm_up import WarmUps

log = logging.getLogger(__name__)

LIFETIME_S = 3_600.0  # OpenAI's
_UPGRADE = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}  # RFC 9110, RFC 6455


class SocketRoutes:
    """The handler, and all connections that are open. One instance serves a process."""

    def __init__(
        self,
        turns: TurnService,
        warm_ups: WarmUps,
        *,
        keep_alive_s: float,
        lifetime_s: float = LIFETIME_S,
        origins: Collection[str] = (),
        drops_hosted: bool = False,
        listing: ResponseList | None = None,
    ) -> None:
        """`origins` are the web pages that may connect besides those of this host; "*" are all. With `drops_hosted`
        hosted tools are left out of requests instead of refused. `listing` answers requests that open no WebSocket
        and name a session."""
        self._listing = listing
        self._drops_hosted = drops_hosted
        self._turns = turns
        self._warm_ups = warm_ups
        self._keep_alive_s = keep_alive_s
        self._lifetime_s = lifetime_s
        self._origins = frozenset(origins)
        self._open: set[_Connection] = set()
        self._draining = False
        subprotocols.keep_out_of_the_log()

    def table(self) -> list[web.RouteDef]:
        return [web.get("/v1/responses", self.connect, allow_head=False)]

    async def connect(self, request: web.Request) -> web.StreamResponse:
        session_id = sessions.session_id_of(request)
        socket = web.WebSocketResponse(
            heartbeat=self._keep_alive_s,
            max_msg_size=BODY_BYTES_MAX,
            compress=False,  # events are small: it would cost time and memory for each connection, and save little
        )
        if not _opens(socket, request):
            if self._listing is not None and response_list.is_asked_for(request):
                return await self._listing.page(request)
            raise web.HTTPUpgradeRequired(
                reason="GET /v1/responses opens a WebSocket, or lists the responses of a session or conversation that "
                "the query names. To create a response, POST.",
                headers=_UPGRADE | {"Connection": "Upgrade" if request.keep_alive else "Upgrade, close"},
            )
        if pages.is_foreign(request, self._origins):  # no rule of browsers keeps a page from reading a WebSocket
            return pages.refuse_foreign()
        if self._draining:
            raise Unavailable("The server is shutting down.")
        connections.bound_stream(request)
        await socket.prepare(request)
        connection = _Connection(
            request, socket, self._turns, self._warm_ups, session_id=session_id, drops_hosted=self._drops_hosted
        )
        self._open.add(connection)
        metrics.STREAMS_OPEN.of("websocket").add()
        ageing = asyncio.get_running_loop().call_later(self._lifetime_s, connection.expire, self._lifetime_s)
        try:
            with bodies.tally_of(request) as tally:
                connections.bound_messages(request, tally)
                await connection.serve()
        finally:
            ageing.cancel()
            metrics.STREAMS_OPEN.of("websocket").add(-1)
            self._open.discard(connection)
        return socket

    async def drain(self, patience_s: float) -> None:
        """Closes idle connections at once and the others behind their running response; returns when all are closed, or
        after a while. To be called while the server still reads: otherwise clients could not even answer a ping."""
        self._draining = True
        serving = [connection.leave() for connection in self._open]
        if serving:
            await asyncio.wait(serving, timeout=patience_s)
        for connection in self._open:
            connection.abort()
        if serving:
            await asyncio.wait(serving)


def _opens(socket: web.WebSocketResponse, request: web.Request) -> bool:
    """Whether the request opens a WebSocket as RFC 6455 has it."""
    try:
        return bool(socket.can_prepare(request))
    except ValueError:  # aiohttp quotes what is wrong, and cannot quote what is no text
        return False


class _Connection:
    """One open connection."""

    def __init__(
        self,
        request: web.Request,
        socket: web.WebSocketResponse,
        turns: TurnService,
        warm_ups: WarmUps,
        *,
        session_id: str | None,
        drops_hosted: bool,
    ) -> None:
        self._request = request
        self._drops_hosted = drops_hosted
        self._socket = socket
        self._turns = turns
        self._warm_ups = warm_ups
        self._tenant = tenant_of(request)
        self._session_id = session_id
        self._limiter = limiter_of(request)
        self._waiting = bodies.tally_of(request)  # what waits behind the running response
        self._write_timeout_s = connections.bounds_of(request).write_timeout_s
        self._session = Session()
        self._changed = asyncio.Event()
        self._served: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._close_code = WSCloseCode.OK
        self._running: asyncio.Task[None] | None = None

    def expire(self, lifetime_s: float) -> None:
        """It is as old as a connection may get."""
        self._close(
            InvalidRequest(
                f"Responses websocket connection limit reached ({lifetime_s / 60:g} minutes). Create a new websocket "
                "connection to continue.",
                code="websocket_connection_limit_reached",
            ),
            say_so=True,
        )

    def leave(self) -> asyncio.Future[None]:
        """The server shuts down. What comes back is done when the connection is closed."""
        self._close_code = WSCloseCode.GOING_AWAY
        self._close(Unavailable("The server is shutting down. Open a new connection."), say_so=False)
        return self._served

    def abort(self) -> None:
        """Stops the response that runs, and closes the connection."""
        if self._running is not None:
            self._running.cancel()

    async def serve(self) -> None:
        """Returns when the connection is closed, by whichever side."""
        reading = asyncio.create_task(self._read(), name="websocket reader")
        self._running = running = asyncio.create_task(self._run(), name="websocket turns")
        try:
            done, _ = await asyncio.wait([reading, running], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if running in done:
                await self._say_goodbye()
        except ConnectionError:
            pass  # the client is gone, which ends everything here
        except Exception:
            log.exception("a WebSocket connection broke", extra=remedies.REPORT)
            await self._socket.close(code=WSCloseCode.INTERNAL_ERROR)
        finally:
            for task in (reading, running):
                task.cancel()
            try:
                await asyncio.gather(reading, running, return_exceptions=True)
            finally:  # the client may go in this very moment, which cancels us
                self._waiting.clear()
                self._served.set_result(None)

    async def _read(self) -> None:
        """Answers what can be answered at once, and leaves the rest to `_run`. Ends with the connection."""
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                await self._send(await self._received(message.data))
            elif message.type is WSMsgType.BINARY:
                refusal = InvalidRequest("Messages must be texts.", field="message", code="invalid_type")
                await self._send([socket_messages.error(refusal)])
            self._changed.set()

    async def _received(self, text: str) -> list[bytes]:
        """Handles a message and returns the frames to answer at once."""
        try:
            message = await offload.run(partial(socket_messages.parse, text), size_bytes=len(text))
        except AntiphonError as error:
            return [socket_messages.error(error)]
        if isinstance(message, Create):
            try:
                self._waiting.add(message.size_bytes)
            except AntiphonError as error:
                return [socket_messages.error(error, message.stream_id)]
        answers = self._session.receive(message)
        self._waiting.shrink_to(self._session.waiting_bytes)
        return answers

    async def _run(self) -> None:
        """One response after the other, until there are to be no more."""
        while self._session.phase is not Phase.OVER:
            if not self._session.has_next:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                with auditing.audited_turn(self._request):
                    await self._answer(self._begin_next())
            except InvalidApiKey as error:
                await self._send(self._session.fail(error))
                self._close_code = WSCloseCode.POLICY_VIOLATION
                self._close(error, say_so=False)
            except AntiphonError as error:
                await self._send(self._session.fail(error))
            except (ConnectionError, asyncio.CancelledError):
                raise
            except Exception:
                log.exception("a response over a WebSocket failed", extra=remedies.REPORT)
                fault = InternalError("The server had an error while processing your request. Its log says why.")
                await self._send(self._session.fail(fault))

    def _begin_next(self) -> Asked:
        """The next response; what waited for it is its own now, also where it is refused. ChainTooLong."""
        try:
            return self._session.begin()
        finally:
            self._waiting.shrink_to(self._session.waiting_bytes)

    async def _answer(self, asked: Asked) -> None:
        authentication.check_again(self._request)
        parse = partial(asked.create.request, drops_hosted=self._drops_hosted)
        request = await offload.run(parse, size_bytes=asked.create.work_bytes)
        await self._limiter.admit(self._tenant, generates=asked.generates)
        if not asked.generates:
            await self._warm_up(request, asked.carried)
            return
        with self._limiter.shedder.turn(self._tenant):
            await self._generate(request, asked)

    async def _generate(self, request: CreateRequest, asked: Asked) -> None:
        accepted = await self._begin(request, asked.carried)
        outbox = Outbox()

        def receive(batch: Batch) -> None:
            messages = self._session.told(batch.frames)
            if batch.final is not None:
                self._session.end(accepted, batch.final)
            outbox.put(messages)

        running = asyncio.ensure_future(self._turns.run(accepted, receive, outbox.flow, with_context=False))
        running.add_done_callback(lambda _: outbox.close())
        try:
            while messages := await outbox.take():
                await self._send(messages)
            running.result()
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def _warm_up(self, request: CreateRequest, carried: bytes | None) -> None:
        await self._warm_ups.require_model(request.model)
        accepted = await self._begin(request, carried)
        try:
            batch, final = await self._warm_ups.run(accepted)
        except BaseException:
            with suppress(AntiphonError):
                await asyncio.shield(self._turns.starter.give_up(accepted))
            raise
        messages = self._session.told(batch.frames)
        self._session.end(accepted, final)
        await self._send(messages)

    async def _begin(self, asked: CreateRequest, carried: bytes | None) -> AcceptedTurn:
        request, session_id = sessions.placed(asked, self._session_id)
        begun = await self._turns.starter.begin(self._tenant, request, session_id=session_id, carried=carried)
        if not isinstance(begun, AcceptedTurn):
            raise AssertionError("only a request with an idempotency key is a repetition")
        return begun

    async def _send(self, messages: Sequence[bytes]) -> None:
        """ConnectionError: the client is gone, or takes nothing."""
        try:
            async with asyncio.timeout(self._write_timeout_s):
                for message in messages:
                    await self._socket.send_frame(message, WSMsgType.TEXT)
        except TimeoutError:
            connections.cut(self._request)
            raise ConnectionResetError("The client does not read.") from None

    async def _say_goodbye(self) -> None:
        await self._send(self._session.farewell())
        await self._socket.close(code=self._close_code)

    def _close(self, error: AntiphonError, *, say_so: bool) -> None:
        self._session.close(error, say_so=say_so)
        self._changed.set()
