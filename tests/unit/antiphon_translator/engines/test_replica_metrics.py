"""Reading load and KV cache out of /metrics of each kind of server."""

import pytest

from antiphon_translator.engines.replica_metrics import ReplicaMetrics, read

TRTLLM = """\
# HELP nv_trt_llm_request_metrics TRT LLM request metrics
# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4
nv_trt_llm_request_metrics{model="other",request_type="waiting",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 6239
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6240
"""
VLLM = """\
vllm:num_requests_running{engine="0",model_name="tensorrt_llm"} 2.0
vllm:num_requests_running{engine="1",model_name="tensorrt_llm"} 1.0
vllm:num_requests_waiting{engine="0",model_name="tensorrt_llm"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tensorrt_llm"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="tensorrt_llm"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="tensorrt_llm"} 0.75
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000",prefix="a\\"b, c={d}"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="500"} 1.0
"""
OURS = """\
antiphon_tokens_requests{model="tensorrt_llm",state="running",version="1"} 5
antiphon_tokens_requests{model="tensorrt_llm",state="waiting",version="1"} 2
"""
SGLANG = """\
sglang:num_running_reqs{model_name="tensorrt_llm"} 7
sglang:num_queue_reqs{model_name="tensorrt_llm"} 0
sglang:token_usage{model_name="tensorrt_llm"} 0.5
"""
SERVE = """\
trtllm_num_requests_running 1
trtllm_num_requests_waiting 2
trtllm_kv_cache_utilization 0.5
trtllm_kv_cache_tokens_per_block 32
trtllm_kv_cache_max_blocks 10
"""


@pytest.mark.parametrize(
    ("text", "metrics", "kv_tokens"),
    [
        (TRTLLM, ReplicaMetrics(4, 3, 0.25, 64, 6240), 399_360),
        (VLLM, ReplicaMetrics(3, 1, 0.5, 16, 1500), 24_000),
        (OURS, ReplicaMetrics(5, 2), None),
        (SGLANG, ReplicaMetrics(7, 0, 0.5), None),
        (SERVE, ReplicaMetrics(1, 2, 0.5, 32, 10), 320),
        ("", ReplicaMetrics(), None),
    ],
)
def test_metrics_of_each_kind_of_server(text: str, metrics: ReplicaMetrics, kv_tokens: float | None) -> None:
    assert read(text, "tensorrt_llm") == metrics
    assert read(text, "tensorrt_llm").kv_tokens == kv_tokens


@pytest.mark.parametrize(
    "line",
    [
        "sglang:token_usage",
        "sglang:token_usage NaN",
        "sglang:token_usage -1",
        "sglang:token_usage +Inf",
        "sglang:token_usage 1e308\nvllm:gpu_cache_usage_perc 1e308",
        "sglang:token_usage{a=} words",
        "vllm:cache_config_info{num_gpu_blocks=None} 1",
    ],
)
def test_values_that_are_no_counts_are_skipped(line: str) -> None:
    assert read(line) == ReplicaMetrics()


def test_all_models_count_without_a_name() -> None:
    assert read(TRTLLM).waiting == 103
