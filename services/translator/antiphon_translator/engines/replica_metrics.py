"""Reads the load and the KV cache of a model server out of its metrics, in Prometheus' text format. No I/O.

Each kind of server has its own names for the same few facts; a row of SAMPLES maps one name to one fact. A fact that
has several samples, such as one for each rank of a data-parallel vLLM, is their sum, or their mean for a share.
The names are those that llm-d reads (its metrics mapping, 2026), and those of `antiphon_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
COUNT_MAX = 1e12
"""No server has more of anything. Larger numbers are no counts: the sum or the product of two may be infinite."""
_MODEL_LABELS = ("model", "model_name")
_TRTLLM_REQUESTS, _TRTLLM_BLOCKS = "nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"


@dataclass(frozen=True, slots=True)
class Sample:
    """The place of a fact: the name of a metric, the labels that its sample must have, and the label whose value is
    the number, where the sample's own value is not."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    value_label: str | None = None


SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "running": (
        Sample(_TRTLLM_REQUESTS, {"request_type": "scheduled"}),
        Sample("antiphon_tokens_requests", {"state": "running"}),
        Sample("vllm:num_requests_running"),
        Sample("sglang:num_running_reqs"),
        Sample("trtllm_num_requests_running"),
    ),
    "waiting": (
        Sample(_TRTLLM_REQUESTS, {"request_type": "waiting"}),
        Sample("antiphon_tokens_requests", {"state": "waiting"}),
        Sample("vllm:num_requests_waiting"),
        Sample("sglang:num_queue_reqs"),
        Sample("trtllm_num_requests_waiting"),
    ),
    "kv_used_share": (
        Sample(_TRTLLM_BLOCKS, {"kv_cache_block_type": "fraction"}),
        Sample("vllm:kv_cache_usage_perc"),
        Sample("vllm:gpu_cache_usage_perc"),
        Sample("sglang:token_usage"),
        Sample("trtllm_kv_cache_utilization"),
    ),
    "block_tokens": (
        Sample(_TRTLLM_BLOCKS, {"kv_cache_block_type": "tokens_per"}),
        Sample("vllm:cache_config_info", {}, "block_size"),
        Sample("trtllm_kv_cache_tokens_per_block"),
    ),
    "blocks": (
        Sample(_TRTLLM_BLOCKS, {"kv_cache_block_type": "max"}),
        Sample("vllm:cache_config_info", {}, "num_gpu_blocks"),
        Sample("trtllm_kv_cache_max_blocks"),
    ),
}
"""The samples of each fact of ReplicaMetrics; a server has at most one of a row."""

_MEANS = frozenset({"kv_used_share", "block_tokens"})
_NAMES = tuple(dict.fromkeys(sample.name for samples in SAMPLES.values() for sample in samples))


@dataclass(frozen=True, slots=True)
class ReplicaMetrics:
    """The facts of one replica. None: the server does not report it.

    `kv_used_share` is 0 to 1; `blocks` is the size of the whole KV cache."""

    running: float | None = None
    waiting: float | None = None
    kv_used_share: float | None = None
    block_tokens: float | None = None
    blocks: float | None = None

    @property
    def kv_tokens(self) -> float | None:
        """The tokens that the KV cache can hold."""
        return None if self.blocks is None or self.block_tokens is None else self.blocks * self.block_tokens


def read(text: str, model: str | None = None) -> ReplicaMetrics:
    """The facts in an answer of /metrics. `model` is the name of one model of the server: samples of others are
    skipped, and those without a model count. A line that cannot be read is skipped."""
    found: dict[str, list[float]] = {}
    for name, labels, value in _samples(text):
        if model is not None and any(labels.get(label, model) != model for label in _MODEL_LABELS):
            continue
        for fact, number in _facts(name, labels, value):
            found.setdefault(fact, []).append(number)
    return ReplicaMetrics(
        **{fact: sum(numbers) / (len(numbers) if fact in _MEANS else 1) for fact, numbers in found.items()}
    )


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """The samples of known names: their names, labels and values."""
    for line in text.splitlines():
        if line.startswith(_NAMES) and (read_line := _LINE.match(line)) is not None:
            name, labels, value = read_line.groups()
            yield name, dict(_LABEL.findall(labels or "")), value


def _facts(name: str, labels: Mapping[str, str], value: str) -> Iterator[tuple[str, float]]:
    for fact, samples in SAMPLES.items():
        for sample in samples:
            if sample.name == name and sample.labels.items() <= labels.items():
                number = _number(labels.get(sample.value_label, "") if sample.value_label else value)
                if number is not None:
                    yield fact, number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= COUNT_MAX else None
