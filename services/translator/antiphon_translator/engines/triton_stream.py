"""A model on a Triton server: one streaming RPC a generation, whatever the model's signature.

How a generation ends, seen from here:

* by itself: the response that Triton marks as final, then the end of the RPC. An RPC that ends without that mark, for
  example because the server dropped the request, is a fault.
* by us: closing the generator cancels the RPC, in every case and before anything else. Triton passes the cancellation
  on; TensorRT-LLM looks for it every 100 ms. Only an ensemble needs more: see triton_stop.py.
* never: a Triton whose backend process died keeps the stream open in silence, hence the two time limits.

When the other end has nothing left to say, its goodbye gets END_GRACE_S to arrive, because cancelling an RPC that is
just ending is what makes older servers crash (Triton before 25.05).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from antiphon_core.errors import AntiphonError, EngineFault, EngineUnavailable
from antiphon_translator.engines import triton_errors
from antiphon_translator.engines.inbox import Inbox, Patience
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_model import TritonModel, facts_of, read_config
from antiphon_translator.engines.triton_signature import Describe, Reader, Signature
from antiphon_translator.engines.triton_stop import StopRequests, can_be_stopped
from antiphon_translator.engines.triton_wire import is_final
from antiphon_translator.generation import EngineChunk, GenerationRequest, Level
from antiphon_translator.profiles import ModelProfile

END_GRACE_S = 0.25


class TritonEngine:
    """One model on one Triton server. `describe` reads the signature out of the model's configuration."""

    def __init__(
        self, profile: ModelProfile, channels: TritonChannels, describe: Describe, *, level: Level | None = None
    ) -> None:
        self._profile = profile
        self._channels = channels
        self._describe = describe
        self._level = level
        self._stub: Any = None
        self._signature: Signature | None = None
        self._generating: TritonModel | None = None
        """The step of an ensemble that generates."""
        self._stops = StopRequests(timeout_s=profile.probe_timeout_s)

    @property
    def level(self) -> Level:
        if self._level is None:
            raise EngineUnavailable(f"The Triton server of model '{self._profile.name}' was not asked yet.")
        return self._level

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
        await self._stops.close()
        if self._stub is not None:
            self._stub = None
            await self._channels.release(self._profile.endpoint)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
        signature = await self._described()
        message, reader = signature.request(request), signature.reader(request)
        stub, step = self._connected(), self._generating
        call = stub.ModelStreamInfer()
        inbox = Inbox(self._chunks(call, message, reader), self._patience())
        try:
            async with aclosing(inbox.batches()) as batches:
                async for batch in batches:
                    yield batch
        except AntiphonError:
            self._signature = None  # the server may come back as another
            raise
        finally:
            stop = None if step is None else partial(self._stops.send, stub, step, request.request_id)
            await _hang_up(call, inbox, grace_s=END_GRACE_S if reader.complete else 0, stop=stop)

    def _patience(self) -> Patience:
        return Patience(
            f"The Triton server of model '{self._profile.name}'",
            first_s=self._profile.first_token_timeout_s,
            next_s=self._profile.token_timeout_s,
        )

    async def _chunks(self, call: Any, message: Any, reader: Reader) -> AsyncGenerator[EngineChunk, None]:
        """Everything that the responses bring."""
        with triton_errors.translated(self._profile.name):
            await call.write(message)
            await call.done_writing()
            final = False
            while (response := await call.read()) is not grpc.aio.EOF:
                if response.error_message:
                    raise triton_errors.from_text(response.error_message, model=self._profile.name)
                chunk = reader.read(response.infer_response)
                final = final or is_final(response.infer_response)
                if chunk is not None:
                    yield chunk
                    if chunk.finish is not None:
                        return
            if not final:
                raise EngineFault(
                    f"The Triton server of model '{self._profile.name}' ended the stream before the generation."
                )
        last = reader.finish()
        if last is not None:
            yield last

    async def _described(self) -> Signature:
        """The model's signature, asked for once, and again after a failure."""
        if self._signature is None:
            answer = await self._ask("ModelConfig", service_pb2.ModelConfigRequest(name=self._profile.triton_model))
            model = read_config(answer.config)
            signature = self._describe(model)
            self._generating = await self._step_that_generates(model)
            self._level = signature.level
            self._signature = signature
        return self._signature

    async def _step_that_generates(self, ensemble: TritonModel) -> TritonModel | None:
        for name in ensemble.steps:
            answer = await self._ask("ModelConfig", service_pb2.ModelConfigRequest(name=name))
            step = facts_of(answer.config)
            if can_be_stopped(step):
                return step
        return None

    async def _ask(self, method: str, message: Any) -> Any:
        # A probe that fails is an answer: a server may be starting.
        with triton_errors.translated(self._profile.name, level=logging.INFO):
            return await getattr(self._connected(), method)(message, timeout=self._profile.probe_timeout_s)

    def _connected(self) -> Any:
        if self._stub is None:
            channel = self._channels.acquire(self._profile.endpoint)
            self._stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return self._stub


async def _hang_up(call: Any, inbox: Inbox, *, grace_s: float, stop: Callable[[], None] | None) -> None:
    """Ends an RPC, also when this is itself cancelled; with `stop`, too, if it had not ended by itself."""
    try:
        if grace_s:
            await inbox.ended(grace_s)
    finally:
        if call.cancel() and stop is not None:
            stop()
        await inbox.close()
