"""The facts in responses of Triton models: those of antiphon_tokens, and those of TensorRT-LLM's own model."""

from typing import Any

import pytest

from antiphon_translator.engines.triton_facts import FactsReader
from antiphon_translator.engines.triton_wire import Outputs
from antiphon_translator.generation import EngineFacts
from tests.support.fake_triton import response

CLASSIC = {
    "kv_cache_reused_blocks": [3],
    "arrival_time_ns": [10**12],
    "first_scheduled_time_ns": [10**12 + 500],
    "first_token_time_ns": [10**12 + 800],
}


def told(**outputs: Any) -> Any:
    wide = {name: values for name, values in outputs.items() if name.endswith("_ns")}
    narrow = {name: values for name, values in outputs.items() if name not in wide}
    message = response({"output_ids": [7], **narrow}).infer_response
    for name, values in wide.items():
        message.outputs.add(name=name, datatype="INT64", shape=[1])
        message.raw_output_contents.append(b"".join(value.to_bytes(8, "little", signed=True) for value in values))
    return message


@pytest.mark.parametrize(
    ("outputs", "block_tokens", "facts"),
    [
        ({"cached_tokens": [70], "queue_ns": [5], "prefill_ns": [2**40]}, 0, EngineFacts(70, 5, 2**40)),
        ({"cached_tokens": [0], "kv_cache_reused_blocks": [3]}, 32, EngineFacts(0)),
        (CLASSIC, 32, EngineFacts(96, 500, 300)),
        (CLASSIC, 0, EngineFacts(None, 500, 300)),
        (CLASSIC | {"first_token_time_ns": [0]}, 32, EngineFacts(96, 500)),
        (CLASSIC | {"first_scheduled_time_ns": [1]}, 32, EngineFacts(96, None, 10**12 + 799)),
        ({"cached_tokens": [-1], "queue_ns": [7]}, 0, EngineFacts(None, 7)),
        ({"cached_tokens": [1, 2, 3], "queue_ns": [7]}, 0, EngineFacts(None, 7)),
        ({"cached_tokens": [], "prefill_ns": [-7]}, 0, None),
        ({}, 32, None),
    ],
)
def test_facts_of_a_response(outputs: dict[str, Any], block_tokens: int, facts: EngineFacts | None) -> None:
    assert FactsReader(Outputs(), block_tokens=block_tokens).read(told(**outputs)) == facts


def test_facts_that_are_repeated_are_not_new() -> None:
    reader = FactsReader(Outputs(), block_tokens=0)
    assert reader.read(told(cached_tokens=[70])) == EngineFacts(70)
    assert reader.read(told(cached_tokens=[70])) is None
    assert reader.read(told(cached_tokens=[70], queue_ns=[5])) == EngineFacts(70, 5)
