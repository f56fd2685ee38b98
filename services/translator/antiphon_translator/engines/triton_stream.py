"""The engine for a model on a Triton server: one streaming RPC per generation, with any signature.

A generation ends

* by itself: with the response that Triton marks as final, then the end of the RPC. An RPC that ends without that mark,
  for example because the server dropped the request, raises EngineFault.
* by cancellation: the RPC is cancelled when nothing more is wanted, at an error, and when the caller's task is
  cancelled. TensorRT-LLM checks for cancellation every 100 ms. An ensemble also needs a stop request (triton_stop.py).
* by a timeout: a Triton whose backend process died keeps the stream open and sends nothing.

When nothing more is wanted and only the end of the stream is still to come, the server gets END_GRACE_S to send it:
cancelling an RPC that is just ending crashes Triton before 25.05.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from tritonclient.grpc import service_pb2

from antiphon_core.errors import AntiphonError, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.telemetry import correlation
from antiphon_translator.engines import triton_errors
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.token_timeouts import TokenTimeouts, time_tokens
from antiphon_translator.engines.triton_blocks import KvBlocks
from antiphon_translator.engines.triton_channels import TritonChannels, TritonConnection
from antiphon_translator.engines.triton_model import TritonModel, facts_of, read_config
from antiphon_translator.engines.triton_responses import TritonResponses
from antiphon_translator.engines.triton_signature import Describe, Signature
from antiphon_translator.engines.triton_stop import StopRequests, can_be_stopped
from antiphon_translator.engines.triton_transport import INFER_PATH
from antiphon_translator.generation import GenerationRequest, Level
from antiphon_translator.models.profiles import ModelProfile

END_GRACE_S = 0.25


class TritonEngine:
    """One model on one Triton server. `describe` reads the signature out of the model's configuration."""

    def __init__(
        self,
        profile: ModelProfile,
        channels: TritonChannels,
        describe: Describe,
        *,
        level: Level | None = None,
        end_grace_s: float = END_GRACE_S,
    ) -> None:
        self._name = f"The Triton server of model '{profile.name}'"
        """For messages to callers, which never show its address."""
        self._profile = profile
        self._channels = channels
        self._describe = describe
        self._level = level
        self._end_grace_s = end_grace_s
        self._connection: TritonConnection | None = None
        self._signature: Signature | None = None
        self._generating: TritonModel | None = None
        """The step of an ensemble that generates."""
        self._blocks = KvBlocks(profile)
        self._stops = StopRequests(timeout_s=profile.probe_timeout_s)
        self._timeouts = TokenTimeouts(
            self._name, first_s=profile.first_token_timeout_s, next_s=profile.token_timeout_s
        )

    @property
    def level(self) -> Level:
        if self._level is None:
            raise EngineUnavailable(f"{self._name} was not asked yet.")
        return self._level

    async def controls(self) -> frozenset[str]:
        return (await self._signature_of_model()).controls

    async def ready(self) -> None:
        name = self._profile.triton_model
        server = await self._ask("ServerReady", service_pb2.ServerReadyRequest())
        if not server.ready:
            raise EngineUnavailable(f"{self._name} is not ready.")
        model = await self._ask("ModelReady", service_pb2.ModelReadyRequest(name=name))
        if not model.ready:
            await self._config(name)  # EngineMisconfigured: the server does not know the model
            raise EngineUnavailable(f"{self._name} has no model '{name}' ready.")

    async def close(self) -> None:
        await self._blocks.close()
        await self._stops.close()
        if self._connection is not None:
            self._connection = None
            await self._channels.release(self._profile.endpoint)

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        try:
            await self._generate(await self._signature_of_model(), request, deliver, flow)
        except AntiphonError:
            self._signature = None  # the server may have another model by now
            raise

    async def _generate(self, signature: Signature, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        if self._blocks.tokens:
            request = replace(request, block_tokens=self._blocks.tokens)
        message = signature.request(request)
        async with time_tokens(self._timeouts, flow) as timer:
            responses = TritonResponses(
                signature.reader(request),
                deliver,
                timer,
                model=self._profile.name,
                end_grace_s=self._end_grace_s,
            )
            try:
                await self._infer(message, responses, flow)
            except AntiphonError:
                if not responses.is_over:
                    raise
            responses.finish()
        if responses.error is not None:
            raise responses.error

    async def _infer(self, message: Any, responses: TritonResponses, flow: Flow) -> None:
        """Runs one RPC to its end. An RPC that has not ended by itself is cancelled, and so is the step that runs."""
        connection, step = self._connect(), self._generating
        with triton_errors.translate_errors(self._profile.name):
            call = await connection.streams.start(
                INFER_PATH,
                message.SerializeToString(),
                responses.receive,
                flow=flow,
                metadata=correlation.engine_headers(),
            )
            try:
                await call.wait_end()
            finally:
                if call.cancel() and step is not None:
                    self._stops.send(connection.streams, step, message.id)

    async def _signature_of_model(self) -> Signature:
        """The model's signature, read once, and again after a failure."""
        if self._signature is None:
            model = read_config(await self._config(self._profile.triton_model))
            steps = [await self._step(name) for name in model.steps]
            signature = self._describe(model.with_steps(steps))
            self._generating = next(filter(can_be_stopped, steps), None)
            self._level = signature.level
            if signature.counts_blocks:
                self._blocks.learn()
            self._signature = signature
        return self._signature

    async def _step(self, name: str) -> TritonModel:
        """A model that is a step of the ensemble."""
        return facts_of(await self._config(name))

    async def _config(self, name: str) -> Any:
        """The configuration of a model. EngineMisconfigured: the server does not know the model."""
        return (await self._ask("ModelConfig", service_pb2.ModelConfigRequest(name=name))).config

    async def _ask(self, method: str, message: Any) -> Any:
        # INFO: failed probes are normal while a server starts.
        with triton_errors.translate_errors(self._profile.name, level=logging.INFO):
            stub = self._connect().stub
            return await getattr(stub, method)(message, timeout=self._profile.probe_timeout_s)

    def _connect(self) -> TritonConnection:
        if self._connection is None:
            self._connection = self._channels.acquire(self._profile.endpoint)
        return self._connection
