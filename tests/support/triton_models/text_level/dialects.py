"""The text-level signatures: the names of the inputs of each, and the outputs of its responses.

`ensemble` and `tensorrt_llm_bls` are TensorRT-LLM's chains of models, `llmapi` is the model of its LLM API, and
`vllm_model` is one of Triton's vLLM backend. Peculiarities of the real models are kept, because clients have to handle
them: the ensemble decodes each token by itself, BLS repeats all text so far, and both leave stop words in the text.
vLLM leaves out a character that was cut off at the end.
"""

import json
from functools import partial

from antiphon_tokens.generation import Guide, RequestError, Sampling
from antiphon_tokens.tensors import finite, scalar, text, texts

# The guide types of TensorRT-LLM by the members of vLLM's structured_outputs.
_GUIDE_TYPES = {"json": "json_schema", "regex": "regex", "grammar": "ebnf_grammar"}


class Dialect:
    """One request in one signature: its parameters, and the outputs of its responses."""

    strips_stop_words = False
    stop_ids = ()
    end_id = None
    accumulates = False
    counts_last_token = False
    tells_cut_characters = True
    top_log_probs = None
    guide = None

    def __init__(self, request):
        self.prompt = text(request, "text_input") or ""

    def outputs(self, text, count, prompt_count, reason):
        """The outputs of one response. `reason` is the finish reason, empty before the end."""
        return {
            "text_output": text,
            **({"num_input_tokens": prompt_count} if self.wants_input_count else {}),
            **({"num_output_tokens": count} if self.wants_output_count else {}),
            **({"finish_reason": reason or "None"} if self.wants_reason else {}),
        }

    def log_probs(self, places, vocabulary):
        """The output with log probabilities. Each of `places` has the chosen token, and then the likeliest ones."""
        return {}

    def note_wanted(self, request):
        self.wants_input_count = bool(scalar(request, "return_num_input_tokens", False))
        self.wants_output_count = bool(scalar(request, "return_num_output_tokens", False))
        self.wants_reason = bool(scalar(request, "return_finish_reason", False))


class Ensemble(Dialect):
    def __init__(self, request):
        super().__init__(request)
        self.note_wanted(request)
        self.tokens_max = scalar(request, "max_tokens", 0)
        self.stop_words = texts(request, "stop_words")
        self.end_id = scalar(request, "end_id", None)
        self.is_streaming = bool(scalar(request, "stream", False))
        self.echo_prompt = not scalar(request, "exclude_input_in_output", False)
        number = partial(finite, request)
        self.sampling = Sampling(
            temperature=number("temperature", 1.0),
            top_k=scalar(request, "top_k", 0),
            top_p=number("top_p", 0.0),
            seed=scalar(request, "seed", None),
            repetition_penalty=number("repetition_penalty", 1.0),
            presence_penalty=number("presence_penalty", 0.0),
            frequency_penalty=number("frequency_penalty", 0.0),
            min_tokens=scalar(request, "min_tokens", 0),
        )
        kind = text(request, "guided_decoding_guide_type")
        self.guide = None if kind is None else Guide(kind, text(request, "guided_decoding_guide") or "")


class Bls(Ensemble):
    accumulates = True


class LlmApi(Dialect):
    strips_stop_words = True
    accumulates = True

    def __init__(self, request):
        super().__init__(request)
        self.note_wanted(request)
        self.tokens_max = scalar(request, "sampling_param_max_tokens", 32)
        self.stop_words = texts(request, "sampling_param_stop")
        self.is_streaming = bool(scalar(request, "streaming", False))
        self.echo_prompt = not scalar(request, "sampling_param_exclude_input_from_output", True)
        number = partial(finite, request)
        self.sampling = Sampling(
            temperature=number("sampling_param_temperature", 1.0),
            top_k=scalar(request, "sampling_param_top_k", 0),
            top_p=number("sampling_param_top_p", 0.0),
            seed=scalar(request, "sampling_param_seed", None),
            presence_penalty=number("sampling_param_presence_penalty", 0.0),
            frequency_penalty=number("sampling_param_frequency_penalty", 0.0),
        )


class Vllm(Dialect):
    strips_stop_words = True
    counts_last_token = True  # the end-of-turn token is one of vLLM's output tokens
    tells_cut_characters = False

    _KNOWN = frozenset(
        "max_tokens skip_special_tokens spaces_between_special_tokens temperature top_p top_k repetition_penalty "
        "presence_penalty frequency_penalty seed stop stop_token_ids structured_outputs min_tokens logprobs".split()
    )

    def __init__(self, request):
        super().__init__(request)
        self.note_wanted(request)
        asked = json.loads(scalar(request, "sampling_parameters", b"{}"))
        unknown = sorted(set(asked) - self._KNOWN)
        if unknown:
            raise RequestError(f"sampling_parameters: {unknown[0]} is not supported on llama.cpp")
        if scalar(request, "return_logprobs", False):
            self.top_log_probs = asked.get("logprobs")
        self.tokens_max = asked.get("max_tokens", 16)
        self.stop_words = asked.get("stop", [])
        self.stop_ids = tuple(asked.get("stop_token_ids", ()))
        self.is_streaming = bool(scalar(request, "stream", False))
        self.echo_prompt = not scalar(request, "exclude_input_in_output", self.is_streaming)
        self.sampling = Sampling(
            temperature=asked.get("temperature", 1.0),
            top_k=asked.get("top_k", 0),
            top_p=asked.get("top_p", 1.0),
            seed=asked.get("seed"),
            repetition_penalty=asked.get("repetition_penalty", 1.0),
            presence_penalty=asked.get("presence_penalty", 0.0),
            frequency_penalty=asked.get("frequency_penalty", 0.0),
            min_tokens=asked.get("min_tokens", 0),
        )
        self.guide = _structured_guide(asked.get("structured_outputs"))

    def log_probs(self, places, vocabulary):
        """The output of the real backend: `null` if there are none, else a map by id for each token, the chosen one
        first."""
        if self.top_log_probs is None:
            return {}
        return {"logprobs": json.dumps([_rank(*place, vocabulary=vocabulary) for place in places] or None)}


DIALECTS = {"ensemble": Ensemble, "tensorrt_llm_bls": Bls, "llmapi": LlmApi, "vllm_model": Vllm}


def _rank(chosen, *likeliest, vocabulary):
    ranks = {token: rank for rank, (token, _) in enumerate(likeliest, 1)}
    return {
        token: {
            "logprob": log_prob,
            "rank": ranks.get(token, len(likeliest) + 1),
            "decoded_token": vocabulary.bytes_of(token).decode("utf-8", "replace"),
        }
        for token, log_prob in (chosen, *likeliest)
    }


def _structured_guide(text):
    """The guide in `structured_outputs`: a string with JSON within the JSON parameters, as in the real backend."""
    if text is None:
        return None
    asked = json.loads(text)
    if asked.get("json_object"):
        return Guide("json", "")
    for name, guide_type in _GUIDE_TYPES.items():
        if name in asked:
            guide = asked[name]
            return Guide(guide_type, guide if isinstance(guide, str) else json.dumps(guide))
    raise RequestError("structured_outputs says nothing that is known here")
