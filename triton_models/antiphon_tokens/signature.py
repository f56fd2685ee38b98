"""The tensors of the model, which are those of TensorRT-LLM's classic `tensorrt_llm` model and optional ones added to
them, and its metrics.

config.pbtxt declares the tensors of the features that an engine has. Triton itself rejects a request with any other
input, by its name, so no wish of a request is ignored. Inputs of the classic model that no engine here serves (beams
beyond one, prompt tables, draft tokens, encoder input, lookahead) are never declared.
"""

import json
from collections.abc import Iterator, Set
from dataclasses import dataclass

ALWAYS = ""
MIN_P, BIAS, BAD_WORDS, GUIDE, LORA = "min_p", "bias", "bad_words", "guide", "lora"
LOG_PROBS, TOP_LOG_PROBS = "log_probs", "top_log_probs"
CACHE_SALT, CONVERSATION, PRIORITY, RETENTION = "cache_salt", "conversation", "priority", "retention"
PERF_METRICS = "perf_metrics"

FEATURES = {
    MIN_P: "sampling with a least probability",
    BIAS: "a bias for each id of the vocabulary",
    BAD_WORDS: "words that are never generated",
    GUIDE: "guided decoding: JSON, JSON schemas, regular expressions, grammars",
    LORA: "LoRA adapters, by the number that model.yaml gives them",
    LOG_PROBS: "the log probability of each id",
    TOP_LOG_PROBS: "the likeliest ids at each place",
    CACHE_SALT: "prompts of two salts share nothing in the KV cache",
    CONVERSATION: "the engine knows which requests are turns of one conversation",
    PRIORITY: "the order in which requests are scheduled: 0 to 100, the higher the sooner; without one, 50",
    RETENTION: "how long the parts of a prompt stay in the KV cache",
    PERF_METRICS: "cached tokens, time in the queue and time of the prefill of each request",
}
"""The abilities that an engine may have or lack, in the words of the documentation."""

REQUESTS_METRIC, QUEUE_METRIC = "antiphon_tokens_requests", "antiphon_tokens_queue_seconds"
METRICS = {REQUESTS_METRIC: ("model", "version", "state"), QUEUE_METRIC: ("model", "version")}
"""The metrics of a model on Triton's port of metrics, with their labels."""

SCALAR, ROW, WORDS = (1,), (-1,), (2, -1)
"""The dimensions of an input, the batch left out."""
SCALARS, BEAMS, BEAMS_OF_ROWS = (1,), (-1,), (-1, -1)
"""The dimensions of an output."""


@dataclass(frozen=True)
class Tensor:
    """One input or output."""

    name: str
    data_type: str
    dims: tuple[int, ...]
    feature: str = ALWAYS
    is_optional: bool = True


INPUTS = (
    Tensor("input_ids", "INT32", ROW),
    Tensor("input_lengths", "INT32", SCALAR, is_optional=False),
    Tensor("request_output_len", "INT32", SCALAR, is_optional=False),
    Tensor("end_id", "INT32", SCALAR),
    Tensor("pad_id", "INT32", SCALAR),
    Tensor("stop_words_list", "INT32", WORDS),
    Tensor("bad_words_list", "INT32", WORDS, BAD_WORDS),
    Tensor("embedding_bias", "FP32", ROW, BIAS),
    Tensor("beam_width", "INT32", SCALAR),
    Tensor("num_return_sequences", "INT32", SCALAR),
    Tensor("temperature", "FP32", SCALAR),
    Tensor("runtime_top_k", "INT32", SCALAR),
    Tensor("runtime_top_p", "FP32", SCALAR),
    Tensor("min_p", "FP32", SCALAR, MIN_P),
    Tensor("repetition_penalty", "FP32", SCALAR),
    Tensor("presence_penalty", "FP32", SCALAR),
    Tensor("frequency_penalty", "FP32", SCALAR),
    Tensor("min_tokens", "INT32", SCALAR),
    Tensor("seed", "UINT64", SCALAR),
    Tensor("return_log_probs", "BOOL", SCALAR, LOG_PROBS),
    Tensor("top_log_probs", "INT32", SCALAR, TOP_LOG_PROBS),
    Tensor("return_num_input_tokens", "BOOL", SCALAR),
    Tensor("return_num_output_tokens", "BOOL", SCALAR),
    Tensor("return_perf_metrics", "BOOL", SCALAR, PERF_METRICS),
    Tensor("exclude_input_in_output", "BOOL", SCALAR),
    Tensor("stop", "BOOL", SCALAR),
    Tensor("streaming", "BOOL", SCALAR),
    Tensor("guided_decoding_guide_type", "STRING", SCALAR, GUIDE),
    Tensor("guided_decoding_guide", "STRING", SCALAR, GUIDE),
    Tensor("lora_task_id", "UINT64", SCALAR, LORA),
    Tensor("cache_salt", "STRING", SCALAR, CACHE_SALT),
    Tensor("conversation_id", "STRING", SCALAR, CONVERSATION),
    Tensor("priority", "INT32", SCALAR, PRIORITY),
    Tensor("retention_token_range_starts", "INT32", ROW, RETENTION),
    Tensor("retention_token_range_ends", "INT32", ROW, RETENTION),
    Tensor("retention_token_range_priorities", "INT32", ROW, RETENTION),
    Tensor("retention_token_range_durations_ms", "INT32", ROW, RETENTION),
    Tensor("retention_decode_priority", "INT32", SCALAR, RETENTION),
    Tensor("retention_decode_duration_ms", "INT32", SCALAR, RETENTION),
)

OUTPUTS = (
    Tensor("output_ids", "INT32", BEAMS_OF_ROWS),
    Tensor("sequence_length", "INT32", BEAMS),
    Tensor("finish_reason", "STRING", SCALARS),
    Tensor("cum_log_probs", "FP32", BEAMS, LOG_PROBS),
    Tensor("output_log_probs", "FP32", BEAMS_OF_ROWS, LOG_PROBS),
    Tensor("top_log_prob_ids", "INT32", BEAMS_OF_ROWS, TOP_LOG_PROBS),
    Tensor("top_log_prob_values", "FP32", BEAMS_OF_ROWS, TOP_LOG_PROBS),
    Tensor("num_input_tokens", "INT32", SCALARS),
    Tensor("num_output_tokens", "INT32", SCALARS),
    Tensor("cached_tokens", "INT32", SCALARS, PERF_METRICS),
    Tensor("queue_ns", "INT64", SCALARS, PERF_METRICS),
    Tensor("prefill_ns", "INT64", SCALARS, PERF_METRICS),
)


def features_of(inputs: Set[str]) -> frozenset[str]:
    """The features that a configuration with these inputs offers."""
    return frozenset(tensor.feature for tensor in INPUTS if tensor.name in inputs) - {ALWAYS}


def config(name: str, engine: str, features: Set[str], *, batch_max: int) -> str:
    """The text of config.pbtxt for a model with these features."""
    return "\n".join(
        [
            f"# A token-level model of antiphon-triton-models, on {engine}: its arguments are in model.yaml.",
            "# An input that is not declared is rejected by Triton, by its name.",
            "",
            f"name: {_string(name)}",
            'backend: "python"',
            f"max_batch_size: {batch_max}",
            "",
            "model_transaction_policy { decoupled: true }",
            "",
            *_block("input", INPUTS, features),
            "",
            *_block("output", OUTPUTS, features),
            "",
            "# The engine chooses its devices itself.",
            "instance_group [ { count: 1  kind: KIND_MODEL } ]",
            "",
            f'parameters {{ key: "engine"  value: {{ string_value: {_string(engine)} }} }}',
            "",
        ]
    )


def _block(kind: str, tensors: tuple[Tensor, ...], features: Set[str]) -> Iterator[str]:
    lines = [_line(tensor, kind) for tensor in tensors if tensor.feature in {ALWAYS, *features}]
    yield f"{kind} ["
    yield ",\n".join(lines)
    yield "]"


def _line(tensor: Tensor, kind: str) -> str:
    dims = f"[ {', '.join(map(str, tensor.dims))} ]"
    line = f"  {{ name: {_string(tensor.name):<37} data_type: {f'TYPE_{tensor.data_type}':<11} dims: {dims:<9}"
    if kind == "input":
        is_reshaped = tensor.dims == SCALAR and tensor.data_type != "STRING"
        line += " reshape: { shape: [ ] } " if is_reshaped else "allow_ragged_batch: true "
        line += " optional: true" if tensor.is_optional else ""
    return f"{line.rstrip()} }}"


def _string(text: str) -> str:
    """A quoted string in protobuf's text format, which the JSON string of a text is."""
    return json.dumps(text, ensure_ascii=False)
