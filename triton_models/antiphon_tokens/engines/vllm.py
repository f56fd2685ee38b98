"""vLLM's V1 engine: `AsyncLLM.generate`, with `TokensPrompt` in and streamed ids out.

Arguments of model.yaml other than `lora_adapters` go to `AsyncEngineArgs`. Stop words of several ids are found by
`generation.Output`: vLLM takes texts, and finds them only in text that it has detokenized.
"""

import inspect
import locale
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from antiphon_tokens import engine, signature
from antiphon_tokens.arguments import Arguments
from antiphon_tokens.engine import Capabilities, Listener, LoadError
from antiphon_tokens.generation import Facts, FinishReason, Generation, Guide, Limits, RequestError, Token
from antiphon_tokens.generation_loop import GenerationLoop, LoopEngine, Step, Steps

FEATURES = frozenset(
    {
        signature.MIN_P,
        signature.BIAS,
        signature.GUIDE,
        signature.LORA,
        signature.LOG_PROBS,
        signature.TOP_LOG_PROBS,
        signature.CACHE_SALT,
        signature.CONVERSATION,
        signature.PRIORITY,
        signature.PERF_METRICS,
    }
)
ARGUMENTS = {"enable_prefix_caching": True, "scheduling_policy": "priority"}
"""The arguments that a new model.yaml has beside the model: cached tokens and priorities need it."""
OPTIONS = {signature.CONVERSATION: "session_id", signature.PRIORITY: "priority", signature.LORA: "lora_request"}
"""The parameter of `generate` that a feature needs."""
PRIORITY_DEFAULT = 50
FINISH_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "abort": FinishReason.CANCELLED}


def load(arguments: Mapping[str, Any], wanted: frozenset[str]) -> "VllmEngine":
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")  # the Python that Triton embeds reads files as ASCII, vLLM's in UTF-8
    import vllm
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    taken = Arguments(arguments)
    adapters = taken.adapters("lora_adapters")
    missing = {**_missing(AsyncLLM), **_not_enabled(arguments)}
    title = f"vllm {vllm.__version__}"
    engine.require(title, {feature: what for feature, what in missing.items() if feature in wanted})
    # Triton's stub embeds Python, so `sys.executable`, which starts the processes of the engine, is not a Python.
    multiprocessing.set_executable(str(Path(sys.prefix) / "bin" / "python3"))
    try:
        options = AsyncEngineArgs(**taken.rest())
    except TypeError as error:
        raise LoadError(f"model.yaml: {title} rejects an argument: {error}") from error
    loop = GenerationLoop()

    async def begin() -> Any:
        return AsyncLLM.from_engine_args(options)

    return VllmEngine(loop.run(begin()), loop, title, adapters, FEATURES - set(missing))


def _missing(llm: Any) -> dict[str, str]:
    """The features that this release lacks, each with what it has not."""
    parameters = inspect.signature(llm.generate).parameters
    return {name: f"{option} in AsyncLLM.generate" for name, option in OPTIONS.items() if option not in parameters}


def _not_enabled(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The features that the arguments of a model leave off, each with the argument that it needs."""
    is_by_priority = arguments.get("scheduling_policy") == ARGUMENTS["scheduling_policy"]
    return {} if is_by_priority else {signature.PRIORITY: 'scheduling_policy: "priority" in model.yaml'}


class VllmEngine(LoopEngine):
    """A running `AsyncLLM` on a loop of its own."""

    def __init__(
        self, llm: Any, loop: GenerationLoop, title: str, adapters: Mapping[int, str], features: frozenset[str]
    ) -> None:
        config = llm.model_config
        limits = Limits(config.max_model_len, config.get_vocab_size())
        super().__init__(llm, loop, Capabilities(title, features, limits))
        self._adapters = adapters
        self._numbers = count()

    def submit(self, generation: Generation, listener: Listener) -> None:
        from vllm import SamplingParams

        try:
            sampling = SamplingParams(**_sampling(generation))
        except _rejections() as error:
            raise RequestError(str(error)) from error
        self._loop.start(self._steps(generation, sampling, self._options(generation)), listener)

    async def _steps(self, generation: Generation, sampling: Any, options: Mapping[str, Any]) -> Steps:
        results = self._llm.generate(_prompt(generation), sampling, f"tokens-{next(self._numbers)}", **options)
        try:
            async for result in results:
                output = result.outputs[0]
                tokens = _tokens(output.token_ids, output.logprobs, generation.top_log_probs)
                yield Step(tokens, _facts(result), _finish(output.finish_reason))
        except _rejections() as error:  # vLLM checks a request when it is added
            raise RequestError(str(error)) from error
        finally:
            await results.aclose()  # which aborts the request in the engine

    def _options(self, generation: Generation) -> dict[str, Any]:
        """The arguments of `generate` for what a request wishes."""
        options: dict[str, Any] = {}
        if generation.lora is not None:
            options["lora_request"] = self._lora(generation.lora)
        if generation.conversation_id is not None:
            options["session_id"] = generation.conversation_id
        if generation.priority is not None:
            options["priority"] = PRIORITY_DEFAULT - generation.priority  # the lower the sooner
        return options

    def _lora(self, number: int) -> Any:
        from vllm.lora.request import LoRARequest

        if number not in self._adapters:
            raise RequestError(f"lora_task_id {number} is not in lora_adapters of model.yaml")
        return LoRARequest(str(number), number, self._adapters[number])


def _rejections() -> tuple[type[Exception], ...]:
    """The errors of requests. vLLM has classes of its own for them in newer releases, and ValueError in others."""
    from vllm import exceptions

    return (ValueError, getattr(exceptions, "VLLMClientError", ValueError))


def _prompt(generation: Generation) -> Any:
    from vllm.inputs import TokensPrompt

    prompt = TokensPrompt(prompt_token_ids=list(generation.prompt))
    if generation.cache_salt is not None:
        prompt["cache_salt"] = generation.cache_salt
    return prompt


def _sampling(generation: Generation) -> dict[str, Any]:
    """The arguments of SamplingParams."""
    from vllm.sampling_params import RequestOutputKind

    sampling = generation.sampling
    return {
        "max_tokens": generation.tokens_max,
        "min_tokens": min(sampling.min_tokens, generation.tokens_max),
        "temperature": 0.0 if sampling.is_greedy else sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p if 0 < sampling.top_p < 1 else 1.0,
        "min_p": sampling.min_p,
        "seed": None if sampling.seed is None else sampling.seed % 2**63,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "ignore_eos": True,  # an end id is one only if the request says so
        "stop_token_ids": generation.stop_ids,
        "logprobs": generation.top_log_probs if generation.log_probs else None,
        "logit_bias": dict(sampling.bias) or None,
        "structured_outputs": None if generation.guide is None else _guide(generation.guide),
        "detokenize": False,
        "output_kind": RequestOutputKind.DELTA,
    }


def _guide(guide: Guide) -> Any:
    from vllm.sampling_params import StructuredOutputsParams

    members: dict[str, dict[str, Any]] = {
        "json": {"json_object": True},
        "json_schema": {"json": guide.text},
        "regex": {"regex": guide.text},
        "ebnf_grammar": {"grammar": guide.text},
    }
    if guide.kind not in members:
        raise RequestError(f"unknown guided_decoding_guide_type {guide.kind!r}; known: {', '.join(members)}")
    return StructuredOutputsParams(**members[guide.kind])


def _tokens(ids: Sequence[int], log_probs: Sequence[Mapping[int, Any]] | None, top: int) -> list[Token]:
    if not log_probs:
        return [Token(number) for number in ids]
    return [_token(number, at, top) for number, at in zip(ids, log_probs, strict=True)]


def _token(number: int, at: Mapping[int, Any], top: int) -> Token:
    """A token with its entry of log probabilities: the chosen id and the likeliest ones, by their ranks."""
    ranked = sorted(at.items(), key=lambda entry: entry[1].rank or 0)
    likeliest = tuple((other, float(entry.logprob)) for other, entry in ranked[:top])
    return Token(number, float(at[number].logprob), likeliest)


def _facts(result: Any) -> Facts:
    times = result.metrics
    if times is None or not times.first_token_ts:
        return Facts(cached_tokens=result.num_cached_tokens)
    return Facts(
        cached_tokens=result.num_cached_tokens,
        queue_ns=_nanoseconds(times.scheduled_ts - times.queued_ts),
        prefill_ns=_nanoseconds(times.first_token_ts - times.scheduled_ts),
    )


def _nanoseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e9))


def _finish(reason: str | None) -> FinishReason | None:
    if reason == "error":
        raise RuntimeError("vLLM ended the generation with an error")
    return FINISH_REASONS.get(reason or "")
