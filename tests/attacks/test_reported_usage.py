"""Attack 23: engines that report more tokens than there can have been. The usage of the response, which is charged to
its tenant, stays within what the engine was sent and what it sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch
from antiphon_translator.engines import triton_text, triton_vllm
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.models.profiles import ModelProfile
from tests.support.fake_chat import MODEL, delta, event, fake_chat
from tests.support.fake_triton import ENSEMBLE, VLLM, Kind, fake_triton, response
from tests.support.in_process import translator_of
from tests.support.served_models import model, turn

MOST = 1_000
"""Tokens that a short turn can have: the request limits its output to ten."""
COUNTS = [-5, 2**31 - 1, 10**18, 10**400, 1e18, float("inf"), "9" * 30]


async def usage_of(engine: Engine) -> Object:
    """Returns the usage of a short turn on this engine."""
    service = translator_of((model(), engine))
    batches: list[Batch] = []
    await service.generate(turn("Hi", max_output_tokens=10), batches.append)
    await service.close()
    answer = fold([made for batch in batches for made in events.decode(batch.frames)])
    assert answer["status"] in ("completed", "incomplete")
    usage: Object = answer["usage"]
    return usage


def require_plausible(usage: Object) -> None:
    assert 0 < usage["input_tokens"] < MOST
    assert 0 <= usage["output_tokens"] <= 10 + 64
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert 0 <= usage["input_tokens_details"]["cached_tokens"] <= usage["input_tokens"]
    assert 0 <= usage["output_tokens_details"]["reasoning_tokens"] <= usage["output_tokens"]


@pytest.mark.parametrize("count", COUNTS, ids=lambda count: str(count)[:12])
@pytest.mark.parametrize("part", ["prompt", "completion", "cached", "reasoning", "all"])
async def test_usage_of_a_chat_server_is_bounded(part: str, count: Any) -> None:
    lie = {name: count if part in (name, "all") else 3 for name in ("prompt", "completion", "cached", "reasoning")}
    usage = {
        "prompt_tokens": lie["prompt"],
        "completion_tokens": lie["completion"],
        "prompt_tokens_details": {"cached_tokens": lie["cached"]},
        "completion_tokens_details": {"reasoning_tokens": lie["reasoning"]},
    }
    end = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    async with fake_chat() as fake:
        fake.script = [delta(content="hello"), end, _event_of(usage), b"data: [DONE]\n\n"]
        profile = ModelProfile(name=MODEL, directory=Path(), endpoint=fake.endpoint)
        require_plausible(await usage_of(OpenAIChatEngine(profile)))


@pytest.mark.parametrize("count", [-5, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("kind", [ENSEMBLE, VLLM], ids=["ensemble", "vLLM"])
async def test_usage_of_triton_is_bounded(kind: Kind, count: int) -> None:
    outputs: dict[str, Any] = {"text_output": "hello", "num_input_tokens": count, "num_output_tokens": count}
    end = {"finish_reason": "stop"} if kind is VLLM else {}
    async with fake_triton(kind) as fake:
        fake.script = [response(outputs | end), kind.final()]
        profile = ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint)
        made = triton_vllm if kind is VLLM else triton_text
        require_plausible(await usage_of(made.engine(profile, TritonChannels())))


def _event_of(usage: Object) -> bytes:
    """Returns the event with a usage, whose numbers may be too large for a JSON writer."""
    written = repr({"choices": [], "usage": usage}).replace("'", '"').replace("inf", "1e999")
    return b"data: " + written.encode() + b"\n\n"
