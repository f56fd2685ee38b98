"""Recognizes the errors of engines for a prompt that does not fit into their context.

Such an error is caused by the request, and is no reason to eject the endpoint. The errors of guides are treated in the
same way (guide_errors.py). They occur where an engine was built for a shorter context than the profile of its model
says; the translator itself rejects prompts that are longer than the profile allows.

No two servers say it in the same words, and few send a code. LENGTH_ERRORS has the texts of each server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LengthError:
    """The text of one server. `source` is its file, or the issue that quotes it. `pattern` is found in `example` in
    lower case; it takes linear time for any text."""

    server: str
    source: str
    pattern: str
    example: str


LENGTH_ERRORS: tuple[LengthError, ...] = (
    LengthError(
        "vLLM, SGLang, Ollama 0.33, OpenAI",
        "vllm-project/vllm#20409, sgl-project/sglang#3642, ollama x/mlxrunner/pipeline.go",
        r"(?:maximum|max) context (?:length|size|window)",
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
        "messages, 10000 in the completion). Please reduce the length of the messages or completion.",
    ),
    LengthError(
        "vLLM of 2026",
        "vllm-project/vllm#36197",
        r"context length is only \d",
        "You passed 9001 input tokens and requested 100 output tokens. However, the model's context length is only "
        "4096 tokens, resulting in a maximum input length of 3996 tokens.",
    ),
    LengthError(
        "vLLM 0.7",
        "vllm-project/vllm#12600",
        r"longer than the maximum model length",
        "The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
    ),
    LengthError(
        "vLLM 0.6, with images",
        "vllm-project/vllm#12165",
        r"too long to fit into the model",
        "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that "
        "`max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
    ),
    LengthError(
        "vLLM 0.1",
        "vllm-project/vllm#525",
        r"prompt \(\d{1,9} tokens\) is too long",
        "Input prompt (2664 tokens) is too long and exceeds limit of 2560",
    ),
    LengthError(
        "vLLM",
        "vllm.sampling_params",
        r"max_tokens must be at least 1, got -",
        "max_tokens must be at least 1, got -186.",
    ),
    LengthError(
        "SGLang, Together",
        "sgl-project/sglang#8096",
        r"longer than the (?:model'?s? )?context length",
        "The input (85050 tokens) is longer than the model's context length (32768 tokens).",
    ),
    LengthError(
        "SGLang",
        "sgl-project/sglang#4048",
        r"exceeds the maximum allowed (?:input )?length",
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
    ),
    LengthError(
        "TGI 3.3",
        "text-generation-inference router/src/validation.rs",
        r"`?inputs`? must have less than \d{1,9} tokens",
        "Input validation error: `inputs` must have less than 4096 tokens. Given: 9000",
    ),
    LengthError(
        "TGI 3.3",
        "text-generation-inference router/src/validation.rs",
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and "
        "60 `max_new_tokens`",
    ),
    LengthError(
        "LM Studio 0.3.13",
        "lmstudio-ai/lmstudio-bug-tracker#546",
        r"loaded with context length of only",
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context "
        "length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or "
        "provide a shorter input",
    ),
    LengthError(
        "LM Studio 0.4.20",
        "lmstudio-ai/lmstudio-bug-tracker#2205",
        r"greater than the context length",
        "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the "
        "model with a larger context length, or provide a shorter input",
    ),
    LengthError(
        "LM Studio 0.4.6",
        "anomalyco/opencode#11141",
        r"n_keep ?(?:\(|: ?)\d{1,9}\)? ?>=? ?n_ctx",
        "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)",
    ),
    LengthError(
        "TensorRT-LLM 0.10",
        "triton-inference-server/tensorrtllm_backend#565",
        r"exceeds? (?:the )?(?:maximum (?:input|sequence) length|max_(?:input|seq|model)_len|max_num_tokens)",
        "Encountered an error when fetching new request: Prompt length (200) exceeds maximum input length (1)",
    ),
    LengthError(
        "TensorRT-LLM 0.5",
        "triton-inference-server/tensorrtllm_backend#141",
        r"exceeds maximum sequence length",
        "Cannot process new request: Prompt length (5056) exceeds maximum sequence length (2048)",
    ),
    LengthError(
        "TensorRT-LLM 1.0",
        "tensorrt_llm.executor.base_worker",
        r"should not exceed max_num_tokens",
        "The sum of prompt length (38049.0), query length (0) should not exceed max_num_tokens (32768)",
    ),
    LengthError(
        "TensorRT-LLM 1.0",
        "tensorrt_llm.executor.base_worker",
        r"default_max_tokens`? \(-?\d{1,9}\) must be greater than 0",
        "`default_max_tokens` (-10) must be greater than 0, `default_max_tokens` (-10) = max_seq_len (4096) - "
        "`splited_prompt_len` (4106) - `query_token_len` (0)",
    ),
    LengthError(
        "TensorRT-LLM 0.20",
        "tensorrt_llm.executor.worker",
        r"is greater than `?max_seq_len",
        "`prompt_token_ids` length (9000) is greater than `max_seq_len` (4096)",
    ),
    LengthError(
        "Dynamo",
        "the answer of Dynamo's frontend",
        r"exceeds? (?:the )?(?:model'?s? )?context (?:limit|length|size|window)",
        "Prompt length of 9000 tokens exceeds context limit of 4096",
    ),
    LengthError(
        "llama.cpp",
        "ggml-org/llama.cpp#15780",
        r"exceed_context_size|exceeds the available context size",
        "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    ),
    LengthError(
        "llama.cpp, in the stream",
        "llama.cpp tools/server/server-context.cpp",
        r"context size has been exceeded",
        "Context size has been exceeded.",
    ),
    LengthError(
        "llama-cpp-python",
        "abetlen/llama-cpp-python#416",
        r"exceed context window of \d",
        "Requested tokens (2285) exceed context window of 2048",
    ),
    LengthError(
        "Ollama 0.33",
        "ollama llm/llama_server.go",
        r"prompt is longer than the context",
        "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the "
        "context length in settings, or use a model with a longer context length",
    ),
    LengthError(
        "Ollama 0.33",
        "ollama server/routes.go",
        r"input length exceeds the context",
        "the input length exceeds the context length",
    ),
    LengthError(
        "Ollama's cloud",
        "earendil-works/pi packages/ai/src/utils/overflow.ts",
        r"prompt (?:is )?too long",
        "prompt too long; exceeded max context length by 4904 tokens",
    ),
    LengthError(
        "MLX servers, Anthropic",
        "earendil-works/pi packages/ai/src/utils/overflow.ts",
        r"prompt (?:is )?too long",
        "prompt is too long: 9000 tokens > 4096 maximum",
    ),
    LengthError(
        "mlx-vlm 0.6",
        "mlx_vlm.server.generation",
        r"but max_kv_size is \d",
        "Request needs 9000 context tokens (8000 prompt + 1000 max generation), but MAX_KV_SIZE is 4096.",
    ),
    LengthError(
        "OpenAI, and servers with its codes",
        "https://platform.openai.com/docs/guides/error-codes",
        r"context_length_exceeded|exceeds the context window",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    LengthError(
        "Groq, Cerebras",
        "earendil-works/pi packages/ai/src/utils/overflow.ts",
        r"reduce the length of the (?:messages|prompt|input)",
        "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    ),
)
"""The texts with which servers reject a prompt that is too long."""

_TOO_LONG = re.compile("|".join(dict.fromkeys(each.pattern for each in LENGTH_ERRORS)))


def is_in(text: str) -> bool:
    """Whether the text of an engine's error says that the prompt is too long."""
    return _TOO_LONG.search(text.lower()) is not None
