"""How a generation inside an ensemble is stopped: with a `stop` request to the model that generates.

Triton passes the cancellation of an ensemble's request on to the steps that are still to come, and not to the one that
runs: `tensorrt_llm` would go on to the last token for nobody. A step runs under the request id of its ensemble, and
TensorRT-LLM's model ends the request of the same id when it is asked to. What BLS starts has an id of its own and
cannot be stopped from outside.

The request is sent in the background: whoever gives a generation up waits for nothing.
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
    """Whether a step is the one that generates, and ends a request when asked to."""
    return all(tensor.name in step.inputs for tensor in _STOP)


class StopRequests:
    """The stop requests of one engine. One that is not answered within `timeout_s` is not repeated."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._under_way: set[asyncio.Task[None]] = set()

    def send(self, streams: InferStreams, step: TritonModel, request_id: str) -> None:
        """Stops the request of this id in a step."""
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
        message = triton_wire.build(step, request_id, _STOP).SerializeToString()
        try:
            async with asyncio.timeout(self._timeout_s):
                with triton_errors.translated(step.name, level=logging.INFO):
                    await _answered(streams, message)
        except (AntiphonError, TimeoutError) as error:
            log.info("%s: '%s' was not told to stop: %r", request_id, step.name, error)


async def _answered(streams: InferStreams, message: bytes) -> None:
    """Sends a request and drops the responses to it."""
    call = await streams.start(INFER_PATH, message, _drop, flow=Flow())
    try:
        await call.ended()
    finally:
        call.cancel()


def _drop(_messages: Sequence[bytes]) -> None:
    pass
