"""A client of streaming RPCs over antiphon_http2, with the credentials, retries and errors of RpcClient.

It needs the libraries of antiphon_http2, which are not in the base install.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from antiphon_core.errors import Unavailable
from antiphon_core.flow import Flow
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.absence import Absence
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_core.rpc.client import call_metadata
from antiphon_core.rpc.codec import decode_answer, encode_request
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.observed import MadeCall
from antiphon_core.rpc.services import Api, Method
from antiphon_core.rpc.silence import SilenceWatch
from antiphon_core.rpc.status import from_grpc_error
from antiphon_http2.client.balancing import BalancedStreams
from antiphon_http2.client.options import Options
from antiphon_http2.errors import GrpcError

log = logging.getLogger(__name__)

# Equal to those of the channels of RpcClient.
_OPTIONS = Options(keepalive_interval_s=30.0, keepalive_timeout_s=10.0, message_bytes_max=RPC_MESSAGE_BYTES_MAX)
_PAUSES_S = (0.05, 0.1)  # between the three attempts of every call


class LeanStreams:
    """Calls the streaming methods of one API, round robin over all addresses of `endpoint`. For one event loop.

    While no server can be reached, calls are retried for the first `wait_s` (absence.py). ValueError: the endpoint is
    neither host:port nor dns:///host:port. SettingsError: a file of `credentials` is unusable.
    """

    def __init__(
        self,
        endpoint: str,
        api: Api,
        *,
        unavailable: type[Unavailable],
        credentials: ClientCredentials = ANONYMOUS,
        wait_s: float = 0.0,
    ) -> None:
        self._api = api
        self._unavailable = unavailable
        self._absence = Absence(wait_s)
        self._token = credentials.open_token()
        self._streams = BalancedStreams(endpoint, read_tls=credentials.open_ssl(), options=_OPTIONS)

    async def close(self) -> None:
        await self._streams.close()

    async def run(
        self,
        name: str,
        request: Any,
        receive: Callable[[Any], None],
        *,
        flow: Flow | None = None,
        tenant: str = DEFAULT_TENANT,
        silence_s: float = 0.0,
    ) -> None:
        """Calls `receive` with each answer of a streaming RPC, and returns at its end. Cancelling cancels the RPC.

        While `flow` is paused nothing is read; answers that were read before are still received. A call that fails with
        Unavailable before its first answer is retried twice, and then for the first `wait_s` in which no server can be
        reached.

        Inactivity timeout: a call that gets no message for `silence_s` (0: no limit), heartbeats included, fails with
        Unavailable. If the whole connection was silent for `silence_s`, it is closed, and all its calls fail. Until
        the first message of a call the limit is FIRST_SIGN_S, if that is shorter; a call that exceeds this limit also
        makes later calls avoid its address for a while.

        Raises the AntiphonError of the service, Unavailable if the service cannot be reached, and the errors of
        `receive`.
        """
        method = self._api.methods[name]
        data = encode_request(method.request, request)
        answers = _Answers(lambda message: receive(decode_answer(method.response, message)), self._absence)
        with MadeCall(method) as made:
            await self._attempts(method, data, answers, tenant, flow, made, silence_s)

    async def _attempts(
        self,
        method: Method,
        data: bytes,
        answers: _Answers,
        tenant: str,
        flow: Flow | None,
        made: MadeCall,
        silence_s: float,
    ) -> None:
        pauses_s = iter(_PAUSES_S)
        while True:
            metadata = call_metadata(tenant, self._token)
            try:
                await self._attempt(method.path, data, answers, metadata, flow, method.deadline_s, silence_s)
                return
            except GrpcError as error:
                fault = from_grpc_error(error, self._unavailable)
                absence_s = self._absence.pause_after(fault, asyncio.get_running_loop().time())
                pause_s = next(pauses_s, absence_s)
                if pause_s is None or answers.has_begun or not isinstance(fault, Unavailable):
                    raise made.failed(fault) from error
                log.debug("%s is tried again: %s", method.path, error.message)
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter is no secret

    async def _attempt(
        self,
        path: str,
        data: bytes,
        answers: _Answers,
        metadata: Sequence[tuple[str, str]],
        flow: Flow | None,
        timeout_s: float | None,
        silence_s: float,
    ) -> None:
        peer = await self._streams.choose()
        with self._streams.used(peer) as streams:
            call = await streams.start(path, data, answers.receive, flow=flow, metadata=metadata, timeout_s=timeout_s)

            def on_silence() -> None:
                if not watch.has_heard:
                    peer.avoid()
                call.give_up("Nothing came for too long.", silence_s)

            watch = SilenceWatch(silence_s, on_silence)
            answers.on_messages = watch.heard
            try:
                with watch.running(flow):
                    await call.ended()
            finally:
                call.cancel()


class _Answers:
    """Passes the messages of one call to the receiver one by one. The first message that is not a heartbeat ends the
    absence of the service."""

    def __init__(self, receive: Callable[[bytes], None], absence: Absence) -> None:
        self.has_begun = False
        self._receive = receive
        self._absence = absence
        self.on_messages: Callable[[], None] = lambda: None

    def receive(self, messages: Sequence[bytes]) -> None:
        self.on_messages()
        if not self.has_begun and any(messages):  # a heartbeat is empty
            self.has_begun = True
            self._absence.is_over()
        for message in messages:
            self._receive(message)
