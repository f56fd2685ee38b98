"""Requests of the adapter to TensorRT-LLM, with the signatures of two releases (tests/support/tensorrt_llm_stub)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon_tokens.engine import LoadError
from antiphon_tokens.engines import tensorrt_llm
from antiphon_tokens.engines.tensorrt_llm import FEATURES, TensorrtLlmEngine
from antiphon_tokens.generation import (
    Facts,
    FinishReason,
    Generation,
    Guide,
    Limits,
    RequestError,
    Retention,
    RetentionRange,
    Sampling,
    Token,
)
from tests import support
from tests.support.waiting import WAIT_MAX_S
from tests.unit.antiphon_tokens.test_generation_loop import Played

STUBS = Path(support.__file__).with_name("tensorrt_llm_stub")
ASKED = Generation(prompt=[1, 2], tokens_max=4, end_id=9)
PLAIN = {"max_tokens": 4, "end_id": 9, "pad_id": 9, "detokenize": False, "include_stop_str_in_output": True}
SECOND = timedelta(seconds=1)


def use(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """Makes the stub of a release importable as `tensorrt_llm`."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tensorrt_llm", "llm_on_llama")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(STUBS))
    monkeypatch.syspath_prepend(str(STUBS / release))


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use(monkeypatch, "newest")
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tensorrt_llm", "llm_on_llama")]:
        del sys.modules[name]


class PlayedLLM:
    """An LLM that keeps what it is asked, and answers with the given results."""

    def __init__(self, *results: Any, error: Exception | None = None) -> None:
        self.asked: list[tuple[Any, dict[str, Any]]] = []
        self.aborted = 0
        self.is_shut_down = False
        self._results = results
        self._error = error

    def generate_async(self, inputs: Any, **options: Any) -> Any:
        self.asked.append((inputs, options))
        if self._error is not None:
            raise self._error
        return self

    async def __aiter__(self) -> Any:
        for result in self._results:
            yield result

    def abort(self) -> None:
        self.aborted += 1

    def shutdown(self) -> None:
        self.is_shut_down = True


def result(ids: list[int], finish: str | None = None, **more: Any) -> Any:
    output = SimpleNamespace(token_ids=ids, logprobs=more.pop("logprobs", []), finish_reason=finish, **more)
    return SimpleNamespace(outputs=[output], cached_tokens=7)


def generated(llm: PlayedLLM, generation: Generation = ASKED) -> Played:
    engine = TensorrtLlmEngine(llm, "tensorrt_llm stub", {5: "/adapters/five"}, Limits())
    listener = Played()
    try:
        engine.submit(generation, listener)
        assert listener.has_ended.wait(WAIT_MAX_S)
    finally:
        engine.close()
    assert llm.is_shut_down
    return listener


def options(generation: Generation) -> dict[str, Any]:
    llm = PlayedLLM(result([3], "stop"))
    generated(llm, generation)
    [(prompt, found)] = llm.asked
    assert (prompt, found.pop("streaming")) == ([1, 2], True)
    return found


def test_smallest_request_is_greedy_and_stops_at_its_end_id(newest: None) -> None:
    found = options(ASKED)
    parameters = found.pop("sampling_params")
    assert found == {}
    assert {name: getattr(parameters, name) for name in PLAIN} == PLAIN
    assert (parameters.top_k, parameters.stop_token_ids, parameters.return_perf_metrics) == (1, None, True)


def test_request_without_an_end_id_has_one_that_no_token_has(newest: None) -> None:
    assert options(Generation(prompt=[1, 2], tokens_max=4))["sampling_params"].end_id == -1


def test_every_wish_of_a_request_reaches_the_llm_api(newest: None) -> None:
    retention = Retention((RetentionRange(0, None, 90, 500),), decode_priority=10)
    sampling = Sampling(
        temperature=0.5, top_k=7, top_p=0.9, min_p=0.1, seed=3, repetition_penalty=1.5, presence_penalty=0.5,
        frequency_penalty=0.25, min_tokens=2, bad_words=((4,),),
    )  # fmt: skip
    found = options(
        Generation(
            prompt=[1, 2], tokens_max=4, end_id=9, stop_words=((6, 7), (5,)), sampling=sampling, log_probs=True,
            top_log_probs=3, guide=Guide("regex", "a+"), lora=5, cache_salt="s", conversation_id="c", priority=75,
            retention=retention,
        )
    )  # fmt: skip
    parameters = found.pop("sampling_params")
    drawn = ("temperature", "top_k", "top_p", "min_p", "seed", "repetition_penalty", "presence_penalty")
    assert [getattr(parameters, name) for name in drawn] == [0.5, 7, 0.9, 0.1, 3, 1.5, 0.5]
    others = (parameters.frequency_penalty, parameters.min_tokens, parameters.bad_token_ids, parameters.stop_token_ids)
    assert others == (0.25, 2, [4], [5])
    assert (parameters.logprobs, parameters.guided_decoding.regex) == (3, "a+")
    assert (found["cache_salt"], found["conversation_params"].conversation_id, found["priority"]) == ("s", "c", 0.75)
    assert (found["lora_request"].lora_int_id, found["lora_request"].lora_path) == (5, "/adapters/five")
    kept = found["kv_cache_retention_config"]
    [first] = kept.token_range_retention_configs
    ranges = (first.token_start, first.token_end, first.priority, first.duration_ms)
    assert ranges == (0, None, 90, timedelta(milliseconds=500))
    assert (kept.decode_retention_priority, kept.decode_duration_ms) == (10, None)


@pytest.mark.parametrize(
    ("guide", "member", "value"),
    [("json", "json_object", True), ("json_schema", "json", "{}"), ("ebnf_grammar", "grammar", "{}")],
)
def test_guides_have_their_members(newest: None, guide: str, member: str, value: Any) -> None:
    asked = Generation(prompt=[1, 2], tokens_max=4, guide=Guide(guide, "{}"))
    assert getattr(options(asked)["sampling_params"].guided_decoding, member) == value


def test_drawn_ids_of_requests_without_a_seed_differ(newest: None) -> None:
    asked = Generation(prompt=[1, 2], tokens_max=4, sampling=Sampling(top_p=0.9))
    assert options(asked)["sampling_params"].seed != options(asked)["sampling_params"].seed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora": 6}, "lora_task_id 6 is not in lora_adapters"),
        ({"guide": Guide("poem", "")}, "unknown guided_decoding_guide_type 'poem'"),
        ({"sampling": Sampling(bad_words=((1, 2),))}, "takes words of one id only"),
    ],
)
def test_wish_that_cannot_be_served_is_refused(newest: None, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        generated(PlayedLLM(), Generation(prompt=[1, 2], tokens_max=4, **changes))


def test_new_ids_of_each_result_are_passed_on_with_what_it_says(newest: None) -> None:
    times = SimpleNamespace(arrival_time=SECOND, first_scheduled_time=3 * SECOND, first_token_time=7 * SECOND)
    last = result([3, 4, 5], "length", request_perf_metrics=SimpleNamespace(timing_metrics=times))
    llm = PlayedLLM(result([3]), last)
    listener = generated(llm)
    assert (listener.ids, listener.end, llm.aborted) == ([3, 4, 5], FinishReason.LENGTH, 1)
    assert listener.facts == [Facts(cached_tokens=7), Facts(7, 2 * 10**9, 4 * 10**9)]


def test_log_probabilities_are_those_of_the_chosen_and_the_likeliest_ids() -> None:
    at = {8: SimpleNamespace(logprob=-0.5), 3: SimpleNamespace(logprob=-1.5), 2: SimpleNamespace(logprob=-0.75)}
    output = SimpleNamespace(token_ids=[1, 3], logprobs=[{}, at])
    assert tensorrt_llm._tokens(output, 1, 2) == [Token(3, -1.5, ((8, -0.5), (2, -0.75)))]


def test_request_that_the_llm_api_rejects_is_at_fault_itself(newest: None) -> None:
    listener = generated(PlayedLLM(error=ValueError("too many tokens")))
    assert listener.end == ("too many tokens", True)


def test_older_release_is_loaded_without_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "older")
    import tensorrt_llm as library

    loaded: list[dict[str, Any]] = []
    monkeypatch.setattr(library, "LLM", _llm_of(library.LLM, loaded))
    arguments = {"model": "/m", "max_seq_len": 64, **tensorrt_llm.ARGUMENTS}
    with pytest.raises(LoadError, match="conversation .* priority .* --without conversation,priority"):
        tensorrt_llm.load(arguments, FEATURES)
    engine = tensorrt_llm.load(arguments, FEATURES - {"conversation", "priority"})
    assert engine.capabilities().features == FEATURES - {"conversation", "priority"}
    assert engine.capabilities().limits == Limits(64)
    assert loaded == [arguments]
    engine.close()


def _llm_of(stub: Any, loaded: list[dict[str, Any]]) -> Any:
    class Loaded(PlayedLLM):
        generate_async = stub.generate_async

        def __init__(self, **arguments: Any) -> None:
            super().__init__()
            loaded.append(arguments)

    return Loaded


def test_guides_without_a_backend_fail_the_load(newest: None) -> None:
    with pytest.raises(LoadError, match="guided decoding needs guided_decoding_backend"):
        tensorrt_llm.load({"model": "/m"}, FEATURES)
