"""A client of streaming RPCs over antiphon_http2, with the credentials and errors of RpcClient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.flow import Flow
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_core.rpc.client import OPTIONS, call_metadata
from antiphon_core.rpc.codec import decode_answer, encode_request
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.observed import MadeCall
from antiphon_core.rpc.services import Api, Method
from antiphon_core.rpc.silence import SilenceWatch
from antiphon_core.rpc.status import from_grpc_error
from antiphon_http2.client.balancing import BalancedStreams
from antiphon_http2.errors import GrpcError


class LeanStreams:
    """Calls the streaming methods of one API, round robin over all addresses of `endpoint`. For one event loop.

    Each call is one attempt (retrying.py). SettingsError: the endpoint is neither host:port nor dns:///host:port, or a
    file of `credentials` is unusable.
    """

    def __init__(
        self,
        endpoint: str,
        api: Api,
        *,
        unavailable: type[Unavailable],
        credentials: ClientCredentials = ANONYMOUS,
    ) -> None:
        self._api = api
        self._unavailable = unavailable
        self._token = credentials.open_token()
        try:
            self._streams = BalancedStreams(endpoint, read_tls=credentials.open_ssl(), options=OPTIONS)
        except ValueError as error:
            raise SettingsError(f"An address of a service is {error}.") from error

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

        While `flow` is paused nothing is read; answers that were read before are still received.

        Inactivity timeout: a call that gets no message for `silence_s` (0: no limit), heartbeats included, fails with
        Unavailable. If the whole connection was silent for `silence_s`, it is closed, and all its calls fail. Until
        the first message of a call the limit is FIRST_SIGN_S, if that is shorter; a call that exceeds this limit also
        makes later calls avoid its address for a while.

        Raises the AntiphonError of the service, Unavailable if the service cannot be reached, and the errors of
        `receive`.
        """
        method = self._api.methods[name]
        data = encode_request(method.request, request)
        answers = _Answers(lambda message: receive(decode_answer(method.response, message)))
        with MadeCall(method) as made:
            try:
                await self._run(method, data, answers, tenant, flow, silence_s)
            except GrpcError as error:
                raise made.record_failure(from_grpc_error(error, self._unavailable)) from error

    async def _run(
        self,
        method: Method,
        data: bytes,
        answers: _Answers,
        tenant: str,
        flow: Flow | None,
        silence_s: float,
    ) -> None:
        metadata = call_metadata(tenant, self._token)
        peer = await self._streams.choose()
        with self._streams.use(peer) as streams:
            call = await streams.start(
                method.path, data, answers.receive, flow=flow, metadata=metadata, timeout_s=method.deadline_s
            )

            def on_silence() -> None:
                if not watch.has_heard:
                    peer.avoid()
                call.give_up("Nothing came for too long.", silence_s)

            watch = SilenceWatch(silence_s, on_silence)
            answers.on_messages = watch.note_message
            try:
                with watch.running(flow):
                    await call.wait_end()
            finally:
                call.cancel()


class _Answers:
    """Passes the messages of one call to the receiver one by one."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        self.on_messages: Callable[[], None] = lambda: None

    def receive(self, messages: Sequence[bytes]) -> None:
        self.on_messages()
        for message in messages:
            self._receive(message)
