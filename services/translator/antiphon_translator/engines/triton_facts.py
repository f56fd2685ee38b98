"""The figures that a token-level Triton model reports of a request: cached tokens, and times of queue and prefill.

The models of `antiphon triton-models` report them as such, with the first ids and with the last ones. TensorRT-LLM's
own model reports blocks of its cache and points in time, with its last response, which may have no ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_wire import Outputs
from antiphon_translator.generation import EngineFacts

ASKED_BY = "return_perf_metrics"
_CACHED, _QUEUE, _PREFILL = "cached_tokens", "queue_ns", "prefill_ns"
_REUSED = "kv_cache_reused_blocks"
_TIMES = ("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns")
_NAMES = frozenset({_CACHED, _QUEUE, _PREFILL, _REUSED, *_TIMES})
_NUMBER_BYTES = (4, 8)


def can_be_asked(model: TritonModel) -> bool:
    """Whether the model reports any of them."""
    return ASKED_BY in model.inputs and not _NAMES.isdisjoint(model.outputs)


def counts_blocks(model: TritonModel) -> bool:
    """Whether the model counts cached tokens in blocks."""
    return can_be_asked(model) and _REUSED in model.outputs and _CACHED not in model.outputs


class FactsReader:
    """Reads the facts of one request. `block_tokens` is the number of tokens in a block, 0 if it is not known."""

    def __init__(self, outputs: Outputs, *, block_tokens: int) -> None:
        self._outputs = outputs
        self._block_tokens = block_tokens
        self._known = EngineFacts()

    def read(self, response: Any) -> EngineFacts | None:
        """The facts in a response; None if it has none that are new, as nearly every one."""
        if _NAMES.isdisjoint([output.name for output in response.outputs]):
            return None
        queue_ns, prefill_ns = self._number(response, _QUEUE), self._number(response, _PREFILL)
        if queue_ns is None and prefill_ns is None:
            queue_ns, prefill_ns = _durations([self._number(response, name) for name in _TIMES])
        facts = EngineFacts(self._cached_tokens(response), queue_ns, prefill_ns)
        if facts == self._known:  # of a model that repeats them with each id
            return None
        self._known = facts
        return facts

    def _cached_tokens(self, response: Any) -> int | None:
        """Exact, or in blocks of a known size."""
        tokens = self._number(response, _CACHED)
        blocks = self._number(response, _REUSED) if tokens is None and self._block_tokens else None
        return tokens if blocks is None else blocks * self._block_tokens

    def _number(self, response: Any, name: str) -> int | None:
        """The number in an output. None for one that cannot be right: it must not cost the answer that it is about."""
        data = self._outputs.raw(response, name)
        if data is None or len(data) not in _NUMBER_BYTES:
            return None
        number = int.from_bytes(data, "little", signed=True)
        return number if number >= 0 else None


def _durations(times: Sequence[int | None]) -> tuple[int | None, int | None]:
    """The times in the queue and of the prefill, by those of arrival, scheduling and the first token. TensorRT-LLM
    leaves a time at 0 that did not come about."""
    arrival, scheduled, first_token = (time or None for time in times)
    return _between(arrival, scheduled), _between(scheduled, first_token)


def _between(start: int | None, end: int | None) -> int | None:
    return end - start if start is not None and end is not None and end >= start else None
