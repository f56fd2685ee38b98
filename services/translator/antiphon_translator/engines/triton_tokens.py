"""The token-level model of TensorRT-LLM (`tensorrt_llm`) on Triton: ids in, ids out, over one streaming RPC a turn.

How a generation ends, seen from here:

* by itself: the response that Triton marks as final, then the end of the RPC. An RPC that ends without that mark, for
  example because the server dropped the request, is a fault.
* by us: closing the generator cancels the RPC, in every case and before anything else. Triton passes the cancellation
  on; TensorRT-LLM looks for it every 100 ms. No `stop` request follows: the token-level model needs none (only BLS
  hides its inner request from the cancellation), and it would be one more request to a server that may be gone. The
  request id is sent for the server's log.
* never: a Triton whose backend process died keeps the stream open in silence, hence the two time limits.

When the other end has nothing left to say, its goodbye gets END_GRACE_S to arrive, because cancelling an RPC that is
just ending is what makes older servers crash (Triton before 25.05).

A reader task moves messages into a bounded queue as they come, and a batch is whatever the queue holds: no timer, no
delay. When nobody takes batches the queue fills up, the reader stops reading and flow control stops the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from antiphon_core.errors import AntiphonError, EngineFault, EngineTimeout, EngineUnavailable
from antiphon_core.limits import ENGINE_QUEUE_MESSAGES_MAX
from antiphon_translator.engines import triton_errors
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_model import TritonModel, read_config
from antiphon_translator.engines.triton_wire import ResponseReader, build_request, is_final
from antiphon_translator.generation import EngineChunk, GenerationRequest, Level
from antiphon_translator.profiles import ModelProfile

END_GRACE_S = 0.25

_END = None
_Inbox = asyncio.Queue[EngineChunk | Exception | None]


class TritonTokensEngine:
    """One `tensorrt_llm` model on one Triton server."""

    level = Level.TOKENS

    def __init__(self, profile: ModelProfile, channels: TritonChannels) -> None:
        self._profile = profile
        self._channels = channels
        self._stub: Any = None
        self._model: TritonModel | None = None

    async def controls(self) -> frozenset[str]:
        return (await self._described()).controls

    async def ready(self) -> None:
        name = self._profile.triton_model
        server = await self._ask("ServerReady", service_pb2.ServerReadyRequest())
        if not server.ready:
            raise EngineUnavailable(f"The Triton server at {self._profile.endpoint} is not ready.")
        model = await self._ask("ModelReady", service_pb2.ModelReadyRequest(name=name))
        if not model.ready:
            raise EngineUnavailable(f"The Triton server at {self._profile.endpoint} has no model '{name}' ready.")

    async def close(self) -> None:
        if self._stub is not None:
            self._stub = None
            await self._channels.release(self._profile.endpoint)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
        message = build_request(request, await self._described())
        call = self._connected().ModelStreamInfer()
        inbox: _Inbox = asyncio.Queue(ENGINE_QUEUE_MESSAGES_MAX)
        reader = asyncio.create_task(self._read(call, message, inbox))
        progress = _Progress(request)
        try:
            while True:
                ready = await self._next(inbox, progress)
                chunks = [item for item in ready if isinstance(item, EngineChunk)]
                progress.note(chunks)
                if chunks:
                    yield chunks
                if ready[-1] is _END:
                    return
                if isinstance(ready[-1], Exception):
                    raise ready[-1]
        except AntiphonError:
            self._model = None  # the server may come back as another
            raise
        finally:
            await _hang_up(call, reader, grace_s=END_GRACE_S if progress.complete else 0)

    async def _next(self, inbox: _Inbox, progress: _Progress) -> list[EngineChunk | Exception | None]:
        """Everything that is in the inbox, waiting for the first."""
        if inbox.empty():
            limit_s = self._profile.token_timeout_s if progress.begun else self._profile.first_token_timeout_s
            try:
                async with asyncio.timeout(limit_s):
                    ready = [await inbox.get()]
            except TimeoutError as error:
                which = "next" if progress.begun else "first"
                raise EngineTimeout(
                    f"The Triton server of model '{self._profile.name}' sent no {which} token within {limit_s:g} s."
                ) from error
        else:
            ready = [inbox.get_nowait()]
        while not inbox.empty():
            ready.append(inbox.get_nowait())
        return ready

    async def _read(self, call: Any, message: Any, inbox: _Inbox) -> None:
        """Moves what arrives into the inbox; the last thing in it is _END or what went wrong."""
        try:
            with triton_errors.translated(self._profile.name):
                await call.write(message)
                await call.done_writing()
                await self._read_responses(call, inbox)
            await inbox.put(_END)
        except Exception as error:  # noqa: BLE001 - raised again where the inbox is read
            await inbox.put(error)

    async def _read_responses(self, call: Any, inbox: _Inbox) -> None:
        read = ResponseReader().token_ids
        final = False
        while (response := await call.read()) is not grpc.aio.EOF:
            if response.error_message:
                raise triton_errors.from_text(response.error_message, model=self._profile.name)
            ids = read(response.infer_response)
            final = final or is_final(response.infer_response)
            if ids:
                await inbox.put(EngineChunk(ids))
        if not final:
            raise EngineFault(
                f"The Triton server of model '{self._profile.name}' ended the stream before the generation."
            )

    async def _described(self) -> TritonModel:
        """The model's signature, asked for once, and again after a failure."""
        if self._model is None:
            answer = await self._ask("ModelConfig", service_pb2.ModelConfigRequest(name=self._profile.triton_model))
            self._model = read_config(answer.config)
        return self._model

    async def _ask(self, method: str, message: Any) -> Any:
        # A probe that fails is an answer: a server may be starting.
        with triton_errors.translated(self._profile.name, level=logging.INFO):
            return await getattr(self._connected(), method)(message, timeout=self._profile.probe_timeout_s)

    def _connected(self) -> Any:
        if self._stub is None:
            channel = self._channels.acquire(self._profile.endpoint)
            self._stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return self._stub


async def _hang_up(call: Any, reader: asyncio.Task[None], *, grace_s: float) -> None:
    """Ends an RPC, also when this is itself cancelled."""
    try:
        if grace_s:
            await asyncio.wait([reader], timeout=grace_s)
    finally:
        call.cancel()
        reader.cancel()
        await asyncio.wait([reader])


class _Progress:
    """How far a generation has come: whether it began, and whether the other end has nothing left to say."""

    def __init__(self, request: GenerationRequest) -> None:
        self.begun = False
        self.complete = False
        self._left = request.max_tokens
        self._stop_ids = frozenset(request.stop_ids)

    def note(self, chunks: Sequence[EngineChunk]) -> None:
        for chunk in chunks:
            self.begun = True
            self._left -= len(chunk.token_ids)
            if self._left <= 0 or not self._stop_ids.isdisjoint(chunk.token_ids):
                self.complete = True
