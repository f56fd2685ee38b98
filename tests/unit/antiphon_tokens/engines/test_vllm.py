"""Requests of the adapter to vLLM, whose modules are stand-ins here. `make engines` runs it on vLLM itself."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from antiphon_tokens.engine import LoadError
from antiphon_tokens.engines import vllm
from antiphon_tokens.engines.vllm import ARGUMENTS, FEATURES, VllmEngine
from antiphon_tokens.generation import Facts, FinishReason, Generation, Guide, Limits, RequestError, Sampling, Token
from antiphon_tokens.generation_loop import GenerationLoop
from tests.support.waiting import WAIT_MAX_S
from tests.unit.antiphon_tokens.test_generation_loop import Played

CONFIG = SimpleNamespace(max_model_len=64, get_vocab_size=lambda: 100)
ASKED = Generation(prompt=[1, 2], tokens_max=4, end_id=9, stop_words=((6, 7), (5,)))


class Parameters(SimpleNamespace):
    """SamplingParams, StructuredOutputsParams and LoRARequest."""


class ClientError(Exception):
    """vLLM's error of a request."""


class EngineArgs:
    def __init__(self, **arguments: Any) -> None:
        if "unknown" in arguments:
            raise TypeError("unexpected keyword argument 'unknown'")
        self.arguments = arguments


class PlayedLLM:
    """An AsyncLLM that keeps what it is asked, and answers with the given results."""

    model_config = CONFIG

    def __init__(self, *results: Any, error: Exception | None = None) -> None:
        self.asked: list[tuple[Any, Any, dict[str, Any]]] = []
        self.ended = 0
        self.is_shut_down = False
        self._results = results
        self._error = error

    @classmethod
    def from_engine_args(cls, options: EngineArgs) -> PlayedLLM:
        asyncio.get_running_loop()
        return cls()

    async def generate(
        self,
        prompt: Any,
        sampling_params: Any,
        request_id: str,
        *,
        lora_request: Any = None,
        priority: int = 0,
        session_id: str | None = None,
    ) -> Any:
        options = {"lora_request": lora_request, "priority": priority, "session_id": session_id}
        self.asked.append((prompt, sampling_params, {name: value for name, value in options.items() if value}))
        try:
            if self._error is not None:
                raise self._error
            for each in self._results:
                yield each
        finally:
            self.ended += 1

    def shutdown(self) -> None:
        self.is_shut_down = True


class OlderLLM(PlayedLLM):
    async def generate(self, prompt: Any, sampling_params: Any, request_id: str, *, priority: int = 0) -> Any:  # type: ignore[override]
        yield None


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    members: dict[str, dict[str, Any]] = {
        "vllm": {"__version__": "stub", "SamplingParams": Parameters},
        "vllm.exceptions": {"VLLMClientError": ClientError},
        "vllm.engine": {},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": EngineArgs},
        "vllm.inputs": {"TokensPrompt": dict},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": lambda *given: given},
        "vllm.sampling_params": {
            "StructuredOutputsParams": Parameters,
            "RequestOutputKind": SimpleNamespace(DELTA="delta"),
        },
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.async_llm": {"AsyncLLM": PlayedLLM},
    }
    for name, found in members.items():
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys.modules["vllm"], "exceptions", sys.modules["vllm.exceptions"], raising=False)


def result(ids: list[int], finish: str | None = None, log_probs: Any = None, metrics: Any = None) -> Any:
    output = SimpleNamespace(token_ids=ids, logprobs=log_probs, finish_reason=finish)
    return SimpleNamespace(outputs=[output], num_cached_tokens=7, metrics=metrics)


def generated(llm: PlayedLLM, generation: Generation = ASKED) -> Played:
    engine = VllmEngine(llm, GenerationLoop(), "vllm stub", {5: "/adapters/five"}, FEATURES)
    listener = Played()
    try:
        engine.submit(generation, listener)
        assert listener.has_ended.wait(WAIT_MAX_S)
    finally:
        engine.close()
    assert llm.is_shut_down
    return listener


def asked(generation: Generation) -> tuple[Any, Any, dict[str, Any]]:
    llm = PlayedLLM(result([3], "stop"))
    generated(llm, generation)
    [found] = llm.asked
    return found


def test_smallest_request_is_greedy_and_stops_at_its_ids_alone() -> None:
    prompt, parameters, options = asked(ASKED)
    assert (prompt, options) == ({"prompt_token_ids": [1, 2]}, {})
    assert (parameters.temperature, parameters.stop_token_ids, parameters.ignore_eos) == (0.0, [9, 5], True)
    assert (parameters.max_tokens, parameters.detokenize, parameters.output_kind) == (4, False, "delta")
    assert (parameters.logprobs, parameters.logit_bias, parameters.structured_outputs) == (None, None, None)


def test_every_wish_of_a_request_reaches_vllm() -> None:
    sampling = Sampling(
        temperature=0.5, top_k=7, top_p=0.9, min_p=0.1, seed=2**64 - 1, repetition_penalty=1.5, presence_penalty=0.5,
        frequency_penalty=0.25, min_tokens=9, bias=((3, 1.5),),
    )  # fmt: skip
    prompt, parameters, options = asked(
        Generation(
            prompt=[1, 2], tokens_max=4, sampling=sampling, log_probs=True, top_log_probs=3, guide=Guide("regex", "a+"),
            lora=5, cache_salt="s", conversation_id="c", priority=75,
        )
    )  # fmt: skip
    assert prompt == {"prompt_token_ids": [1, 2], "cache_salt": "s"}
    drawn = ("temperature", "top_k", "top_p", "min_p", "seed", "repetition_penalty", "presence_penalty")
    assert [getattr(parameters, name) for name in drawn] == [0.5, 7, 0.9, 0.1, 2**63 - 1, 1.5, 0.5]
    assert (parameters.frequency_penalty, parameters.min_tokens, parameters.logit_bias) == (0.25, 4, {3: 1.5})
    assert (parameters.logprobs, parameters.structured_outputs) == (3, Parameters(regex="a+"))
    assert options == {"lora_request": ("5", 5, "/adapters/five"), "priority": -25, "session_id": "c"}


@pytest.mark.parametrize(
    ("kind", "members"),
    [("json", {"json_object": True}), ("json_schema", {"json": "{}"}), ("ebnf_grammar", {"grammar": "{}"})],
)
def test_guides_have_their_members(kind: str, members: dict[str, Any]) -> None:
    _, parameters, _ = asked(Generation(prompt=[1], tokens_max=4, guide=Guide(kind, "{}")))
    assert parameters.structured_outputs == Parameters(**members)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"lora": 6}, "lora_task_id 6 is not in"), ({"guide": Guide("poem", "")}, "unknown guided_decoding_guide_type")],
)
def test_wish_that_cannot_be_served_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        generated(PlayedLLM(), Generation(prompt=[1, 2], tokens_max=4, **changes))


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("abort", FinishReason.CANCELLED),
        ("error", ("the engine failed: RuntimeError('vLLM ended the generation with an error')", False)),
    ],
)
def test_ids_are_passed_on_until_vllm_names_a_reason(reason: str, end: Any) -> None:
    llm = PlayedLLM(result([3]), result([4, 5], reason), result([6]))
    listener = generated(llm)
    assert (listener.end, llm.ended) == (end, 1)
    assert listener.ids == ([3] if reason == "error" else [3, 4, 5])


def test_facts_are_those_of_vllms_metrics() -> None:
    times = SimpleNamespace(queued_ts=1.0, scheduled_ts=3.0, first_token_ts=3.5)
    early = SimpleNamespace(queued_ts=1.0, scheduled_ts=0.0, first_token_ts=0.0)
    listener = generated(PlayedLLM(result([3], metrics=early), result([4], "stop", metrics=times)))
    assert listener.facts == [Facts(cached_tokens=7), Facts(7, 2 * 10**9, 5 * 10**8)]


def test_log_probabilities_are_those_of_the_chosen_and_the_likeliest_ids() -> None:
    entries = ((3, -1.5, 9), (8, -0.5, 1), (2, -0.75, 2))
    at = {number: SimpleNamespace(logprob=value, rank=rank) for number, value, rank in entries}
    assert vllm._tokens([3], [at], 2) == [Token(3, -1.5, ((8, -0.5), (2, -0.75)))]


@pytest.mark.parametrize("error", [ValueError("too long"), ClientError("too long")])
def test_request_that_vllm_rejects_is_at_fault_itself(error: Exception) -> None:
    assert generated(PlayedLLM(error=error)).end == ("too long", True)


def test_model_is_loaded_on_the_loop_with_its_limits() -> None:
    engine = vllm.load({"model": "/m", **ARGUMENTS}, FEATURES)
    assert engine.capabilities().limits == Limits(64, 100)
    assert (engine.capabilities().title, engine.capabilities().features) == ("vllm stub", FEATURES)
    engine.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "/m"}, r"priority \(no scheduling_policy: \"priority\" in model.yaml\)"),
        ({"model": "/m", "unknown": 1, **ARGUMENTS}, "vllm stub rejects an argument: unexpected keyword"),
    ],
)
def test_mistake_in_the_arguments_fails_the_load(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        vllm.load(arguments, FEATURES)


def test_release_that_lacks_a_wanted_parameter_fails_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["vllm.v1.engine.async_llm"], "AsyncLLM", OlderLLM)
    with pytest.raises(LoadError, match=r"conversation \(no session_id .* lora \(no lora_request"):
        vllm.load({"model": "/m", **ARGUMENTS}, FEATURES)
