"""Stops a generation inside an ensemble, with a `stop` request to the step that generates.

When a request to an ensemble is cancelled, Triton cancels the steps that are still to come, but not the step that runs:
`tensorrt_llm` would go on to the last token. A step has the request id of its ensemble, and TensorRT-LLM's model ends
the request of that id on a `stop` request. The requests that BLS makes have ids of their own and cannot be stopped from
outside.

A stop request is sent in the background: a cancellation does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from antiphon_core.errors import AntiphonError
from antiphon_core.flow import Flow
from antiphon_translator.engines import triton_errors, triton_wire
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_transport import INFER_PATH, InferStreams
from antiphon_translator.engines.triton_wire import one, row

log = logging.getLogger(__name__)

CLOSE_GRACE_S = 0.25
_STOP = (row("input_ids", (0,)), one("input_lengths", 0), one("request_output_len", 0), one("stop", True))


def can_be_stopped(step: TritonModel) -> bool:
    """Whether this step of an ensemble takes `stop` requests; only the step that generates does."""
    return all(tensor.name in step.inputs for tensor in _STOP)


class StopRequests:
    """The stop requests of one engine. A stop request has a timeout of `timeout_s` and no retry."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._under_way: set[asyncio.Task[None]] = set()

    def send(self, streams: InferStreams, step: TritonModel, request_id: str) -> None:
        """Starts a task that stops the request of this id in a step."""
        task = asyncio.create_task(self._stop(streams, step, request_id))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Waits up to CLOSE_GRACE_S for requests under way, then cancels them."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=CLOSE_GRACE_S)
            for task in late:
                task.cancel()

    async def _stop(self, streams: InferStreams, step: TritonModel, request_id: str) -> None:
        try:
            message = triton_wire.build(step, request_id, _STOP).SerializeToString()
            async with asyncio.timeout(self._timeout_s):
                with triton_errors.translate_errors(step.name, level=logging.INFO):
                    await _send_request(streams, message)
        except (AntiphonError, TimeoutError) as error:
            log.info("%s: the stop request to '%s' failed: %r", request_id, step.name, error)


async def _send_request(streams: InferStreams, message: bytes) -> None:
    """Sends a request and drops the responses to it."""
    call = await streams.start(INFER_PATH, message, _drop, flow=Flow())
    try:
        await call.wait_end()
    finally:
        call.cancel()


def _drop(_messages: Sequence[bytes]) -> None:
    pass
