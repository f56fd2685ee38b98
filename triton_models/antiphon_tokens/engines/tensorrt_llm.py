"""TensorRT-LLM through its LLM API: `tensorrt_llm.LLM.generate_async`, ids in and streamed ids out.

The LLM API grows with each release, so a parameter is used only if a wanted feature needs it, and is looked for in the
signatures of the installed release when the model is loaded. Arguments of model.yaml other than `model` and
`lora_adapters` go to `tensorrt_llm.LLM`, which rejects those that it does not know.

Stop words of several ids are found by `generation.Output`: the LLM API takes texts, which the tokenizer of the server
would have to turn into ids again.
"""

import inspect
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from antiphon_tokens import engine, signature
from antiphon_tokens.arguments import Arguments
from antiphon_tokens.engine import Capabilities, Listener, LoadError
from antiphon_tokens.generation import (
    Facts,
    FinishReason,
    Generation,
    Guide,
    Limits,
    RequestError,
    Retention,
    Token,
)
from antiphon_tokens.generation_loop import GenerationLoop, LoopEngine, Step, Steps

GENERATE, SAMPLING = "LLM.generate_async", "SamplingParams"
PARAMETERS = {
    signature.MIN_P: (SAMPLING, "min_p"),
    signature.BAD_WORDS: (SAMPLING, "bad_token_ids"),
    signature.GUIDE: (SAMPLING, "guided_decoding"),
    signature.LOG_PROBS: (SAMPLING, "logprobs"),
    signature.TOP_LOG_PROBS: (SAMPLING, "logprobs"),
    signature.PERF_METRICS: (SAMPLING, "return_perf_metrics"),
    signature.LORA: (GENERATE, "lora_request"),
    signature.CACHE_SALT: (GENERATE, "cache_salt"),
    signature.CONVERSATION: (GENERATE, "conversation_params"),
    signature.PRIORITY: (GENERATE, "priority"),
    signature.RETENTION: (GENERATE, "kv_cache_retention_config"),
}
"""The parameter that each feature needs."""
FEATURES = frozenset(PARAMETERS)
ARGUMENTS = {"guided_decoding_backend": "xgrammar", "kv_cache_config": {"enable_block_reuse": True}}
"""The arguments that a new model.yaml has beside the model: guides and cached tokens need it."""
GREEDY_TOP_K = 1
NO_END_ID = -1
FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "cancelled": FinishReason.CANCELLED,
}


def load(arguments: Mapping[str, Any], wanted: frozenset[str]) -> "TensorrtLlmEngine":
    import tensorrt_llm

    title = f"tensorrt_llm {tensorrt_llm.__version__}"
    engine.require(title, {feature: what for feature, what in _missing(tensorrt_llm).items() if feature in wanted})
    taken = Arguments(arguments)
    model, adapters = taken.text("model"), taken.adapters("lora_adapters")
    if signature.GUIDE in wanted and not taken.rest().get("guided_decoding_backend"):
        raise LoadError('model.yaml: guided decoding needs guided_decoding_backend: "xgrammar", or --without guide.')
    llm = tensorrt_llm.LLM(model=model, **taken.rest())
    return TensorrtLlmEngine(llm, title, adapters, Limits(taken.rest().get("max_seq_len")))


def _missing(library: Any) -> dict[str, str]:
    """The features that this release lacks, each with what it has not."""
    callables = {GENERATE: library.LLM.generate_async, SAMPLING: library.SamplingParams}
    return {
        feature: f"{parameter} in {name}"
        for feature, (name, parameter) in PARAMETERS.items()
        if parameter not in inspect.signature(callables[name]).parameters
    }


class TensorrtLlmEngine(LoopEngine):
    """A loaded `tensorrt_llm.LLM`."""

    def __init__(self, llm: Any, title: str, adapters: Mapping[int, str], limits: Limits) -> None:
        import tensorrt_llm

        features = FEATURES - set(_missing(tensorrt_llm))
        super().__init__(llm, GenerationLoop(), Capabilities(title, features, limits))
        self._library = tensorrt_llm
        self._adapters = adapters

    def submit(self, generation: Generation, listener: Listener) -> None:
        sampling = _sampling(generation)
        if signature.PERF_METRICS in self._capabilities.features:
            sampling["return_perf_metrics"] = True
        try:
            parameters = self._library.SamplingParams(**sampling)
        except ValueError as error:  # a value out of the range that the library takes
            raise RequestError(str(error)) from error
        asked = {"sampling_params": parameters, **self._options(generation)}
        self._loop.start(self._steps(list(generation.prompt), asked, generation.top_log_probs), listener)

    async def _steps(self, prompt: list[int], asked: Mapping[str, Any], top: int) -> Steps:
        try:
            request = self._llm.generate_async(prompt, streaming=True, **asked)
        except ValueError as error:  # the LLM API checks lengths and values of a request
            raise RequestError(str(error)) from error
        seen = 0
        try:
            async for result in request:
                output = result.outputs[0]
                tokens = _tokens(output, seen, top)
                seen += len(tokens)
                yield Step(tokens, _facts(result, output), FINISH_REASONS.get(output.finish_reason))
        finally:
            with suppress(Exception):  # it has ended already, or the engine is gone
                request.abort()

    def _options(self, generation: Generation) -> dict[str, Any]:
        """The arguments of `generate_async` for what a request wishes."""
        options: dict[str, Any] = {}
        if generation.lora is not None:
            options["lora_request"] = self._lora(generation.lora)
        if generation.cache_salt is not None:
            options["cache_salt"] = generation.cache_salt
        if generation.conversation_id is not None:
            from tensorrt_llm.conversation_params import ConversationParams

            options["conversation_params"] = ConversationParams(conversation_id=generation.conversation_id)
        if generation.priority is not None:
            options["priority"] = generation.priority / 100  # 0 to 1, the higher the sooner
        if generation.retention is not None:
            options["kv_cache_retention_config"] = _retention(generation.retention)
        return options

    def _lora(self, number: int) -> Any:
        from tensorrt_llm.executor import LoRARequest

        if number not in self._adapters:
            raise RequestError(f"lora_task_id {number} is not in lora_adapters of model.yaml")
        return LoRARequest(str(number), number, self._adapters[number])


def _sampling(generation: Generation) -> dict[str, Any]:
    """The arguments of SamplingParams. Those with their default are left out: releases differ in what they know."""
    sampling = generation.sampling
    end_id = NO_END_ID if generation.end_id is None else generation.end_id
    optional = {
        "min_p": sampling.min_p or None,
        "min_tokens": sampling.min_tokens or None,
        "repetition_penalty": sampling.repetition_penalty if sampling.repetition_penalty != 1 else None,
        "presence_penalty": sampling.presence_penalty or None,
        "frequency_penalty": sampling.frequency_penalty or None,
        "stop_token_ids": generation.stop_ids[generation.end_id is not None :] or None,
        "bad_token_ids": _bad_ids(sampling.bad_words) or None,
        "logprobs": max(1, generation.top_log_probs) if generation.log_probs else None,
        "guided_decoding": None if generation.guide is None else _guide(generation.guide),
        **(_random_choice(generation) if not sampling.is_greedy else {"top_k": GREEDY_TOP_K}),
    }
    return {
        "max_tokens": generation.tokens_max,
        "end_id": end_id,
        "pad_id": max(end_id, 0),
        "detokenize": False,
        "include_stop_str_in_output": True,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _random_choice(generation: Generation) -> dict[str, Any]:
    """The parameters of an id that is drawn. Without a seed TensorRT-LLM draws alike for every request."""
    sampling = generation.sampling
    seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or None,
        "top_p": sampling.top_p or None,
        "seed": seed,
    }


def _bad_ids(words: tuple[tuple[int, ...], ...]) -> list[int]:
    if any(len(word) != 1 for word in words):
        raise RequestError("bad_words_list: TensorRT-LLM's LLM API takes words of one id only")
    return [word[0] for word in words]


def _guide(guide: Guide) -> Any:
    from tensorrt_llm.llmapi import GuidedDecodingParams

    make: dict[str, Callable[[], Any]] = {
        "json": lambda: GuidedDecodingParams(json_object=True),
        "json_schema": lambda: GuidedDecodingParams(json=guide.text),
        "regex": lambda: GuidedDecodingParams(regex=guide.text),
        "ebnf_grammar": lambda: GuidedDecodingParams(grammar=guide.text),
    }
    if guide.kind not in make:
        raise RequestError(f"unknown guided_decoding_guide_type {guide.kind!r}; known: {', '.join(make)}")
    return make[guide.kind]()


def _retention(retention: Retention) -> Any:
    from tensorrt_llm.llmapi import KvCacheRetentionConfig

    ranges = [
        KvCacheRetentionConfig.TokenRangeRetentionConfig(
            each.start, each.end, each.priority, _duration(each.duration_ms)
        )
        for each in retention.ranges
    ]
    decode = {
        "decode_retention_priority": retention.decode_priority,
        "decode_duration_ms": _duration(retention.decode_duration_ms),
    }
    return KvCacheRetentionConfig(ranges, **{name: value for name, value in decode.items() if value is not None})


def _duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def _tokens(output: Any, seen: int, top: int) -> list[Token]:
    """The new tokens of an output, which has all ids so far."""
    ids = output.token_ids[seen:]
    if not output.logprobs:
        return [Token(number) for number in ids]
    return [_token(number, at, top) for number, at in zip(ids, output.logprobs[seen:], strict=False)]


def _token(number: int, at: Mapping[int, Any], top: int) -> Token:
    """A token with its entry of log probabilities: the chosen id and the likeliest ones."""
    likeliest = sorted(((other, float(entry.logprob)) for other, entry in at.items()), key=lambda pair: -pair[1])
    return Token(number, float(at[number].logprob), tuple(likeliest[:top]))


def _facts(result: Any, output: Any) -> Facts:
    """The facts that a result has of its request: the cached tokens with each response, the times with the last one."""
    cached = getattr(result, "cached_tokens", None)
    metrics = getattr(output, "request_perf_metrics", None)
    if metrics is None:
        return Facts(cached_tokens=cached)
    times = metrics.timing_metrics
    return Facts(
        cached_tokens=cached,
        queue_ns=_nanoseconds(times.first_scheduled_time - times.arrival_time),
        prefill_ns=_nanoseconds(times.first_token_time - times.first_scheduled_time),
    )


def _nanoseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
