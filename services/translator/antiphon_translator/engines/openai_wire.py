"""Requests to servers of chat completions: their bodies, in the dialect of the server. Their answers are
read by chat_stream.py.

Servers differ in the members that they take beyond OpenAI's standard. A server names its kind as `owned_by` in its list
of models, and `DIALECTS` says what each kind takes. A server of an unknown kind is sent standard members only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object, loads
from antiphon_translator.generation import (
    REASONING,
    SWITCHES,
    UNLIMITED,
    ChatPrompt,
    GenerationRequest,
    Guide,
    GuideKind,
    Sampling,
)

STANDARD = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")
_NON_STANDARD = ("top_k", "min_p", "repetition_penalty")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The request members that one kind of server takes. `sampling` maps members of Sampling to the server's own names.
    `guides` writes a guide that the standard cannot express: a regular expression or a grammar. `takes_switches`: the
    server takes variables for its chat template (`ChatPrompt.switches`). `takes_parallel_calls`: it takes
    `parallel_tool_calls`; TensorRT-LLM's server rejects members that it does not know. `takes_strict`: it keeps the
    calls of a function that is `strict` to its parameters; without, vLLM 0.32 does not even keep forced calls to them.
    `takes_named_choice`: it takes a `tool_choice` that names a function; llama.cpp takes it for "auto".

    `reasoning` are the names under which a message has the assistant's earlier reasoning. Model servers ignore a name
    that they do not know, so a server of an unknown kind is sent both. The name in a server's own stream does not tell
    which of them it reads: mlx-lm 0.31 writes `reasoning` and leaves messages to templates that read
    `reasoning_content`."""

    sampling: Mapping[str, str]
    guides: Callable[[Guide], Object] | None = None
    reasoning: tuple[str, ...] = (REASONING, "reasoning_content")
    takes_switches: bool = False
    takes_ignore_eos: bool = False
    takes_parallel_calls: bool = False
    takes_strict: bool = False
    takes_named_choice: bool = True

    @property
    def controls(self) -> frozenset[str]:
        """As in engines.base.Engine. All servers take images, in messages, and LoRA adapters, as names of models."""
        others = {"ignore_eos"} if self.takes_ignore_eos else set()
        others |= {SWITCHES} if self.takes_switches else set()
        others |= {"text_guide"} if self.guides is not None else set()
        return frozenset((*self.sampling, *others, "guide", "stop", "logprobs", "top_logprobs", "images", "lora"))


def _dialect_names(*names: str, **others: str) -> dict[str, str]:
    return {name: name for name in (*STANDARD, *names)} | others


def _vllm_guide(guide: Guide) -> Object:
    return {"structured_outputs": {"regex" if guide.kind is GuideKind.REGEX else "grammar": guide.text}}


def _sglang_guide(guide: Guide) -> Object:
    return {"regex" if guide.kind is GuideKind.REGEX else "ebnf": guide.text}


PLAIN = Dialect(_dialect_names())
DIALECTS: Mapping[str, Dialect] = {
    "vllm": Dialect(  # all versions read `reasoning`, and 0.20 nothing else (vllm-project/vllm#38488)
        _dialect_names(*_NON_STANDARD),
        _vllm_guide,
        reasoning=(REASONING,),
        takes_switches=True,
        takes_ignore_eos=True,
        takes_parallel_calls=True,
        takes_strict=True,
    ),
    "sglang": Dialect(
        _dialect_names(*_NON_STANDARD),
        _sglang_guide,
        reasoning=("reasoning_content",),
        takes_switches=True,
        takes_ignore_eos=True,
        takes_parallel_calls=True,
        takes_strict=True,
    ),
    "llamacpp": Dialect(
        _dialect_names("top_k", "min_p", repetition_penalty="repeat_penalty"),
        reasoning=("reasoning_content",),
        takes_switches=True,
        takes_ignore_eos=True,
        takes_parallel_calls=True,
        takes_named_choice=False,
    ),
}
"""The dialects by the `owned_by` of a model in its server's list."""


def dialect_of(models: Object, name: str) -> Dialect:
    """The dialect of the server that gave this list of models: that of the model `name` or, if the list lacks that, of
    its first model. EngineFault: `models` is not a list of models."""
    try:
        owners = {one["id"]: one.get("owned_by") for one in models["data"]}
    except (KeyError, TypeError, AttributeError) as error:
        raise EngineFault("The engine's list of models cannot be read.") from error
    owner = owners.get(name, next(iter(owners.values()), None))
    return DIALECTS.get(str(owner), PLAIN)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as its server lists it. vLLM and SGLang give the `context_length`. vLLM and NIM list LoRA adapters as
    models, too; `parent` is the model that an adapter belongs to."""

    name: str
    context_length: int | None = None
    parent: str | None = None


def parse_models(models: Object) -> list[ListedModel]:
    """The models in a server's list. EngineFault: `models` is not a list of models."""
    try:
        found = [(one["id"], one.get("max_model_len"), one.get("parent")) for one in models["data"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise EngineFault("The engine's list of models cannot be read.") from error
    return [
        ListedModel(str(name), length if isinstance(length, int) else None, parent if isinstance(parent, str) else None)
        for name, length, parent in found
    ]


def body(request: GenerationRequest, model: str, dialect: Dialect, *, tells_cache_key: bool = False) -> Object:
    """The body of POST /chat/completions. EngineFault: the dialect cannot express a sampling control or the guide of
    the request."""
    chat = request.prompt_as(ChatPrompt)
    written: Object = {
        "model": request.lora or model,
        "messages": [_message(message, dialect) for message in chat.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **_sampling(request.sampling, dialect),
        **_tools(chat, dialect),
        **_guide(request.guide, dialect),
    }
    if request.max_tokens != UNLIMITED:
        written["max_tokens"] = request.max_tokens
    if request.server_stops:
        written["stop"] = list(request.server_stops)
    if tells_cache_key and request.cache_key is not None:
        written["prompt_cache_key"] = request.cache_key
    if chat.tools and request.parallel_calls is not None and dialect.takes_parallel_calls:
        written["parallel_tool_calls"] = request.parallel_calls
    if request.ignore_eos:
        written["ignore_eos"] = True
    if request.top_logprobs is not None:
        # With 0 alternatives llama.cpp gives no log probabilities at all. The reader leaves out the one too many.
        written |= {"logprobs": True, "top_logprobs": max(request.top_logprobs, 1)}
    if chat.switches and dialect.takes_switches:
        written["chat_template_kwargs"] = dict(chat.switches)
    return written


def _message(message: Object, dialect: Dialect) -> Object:
    """The message with its reasoning under the names of the dialect."""
    if REASONING not in message or dialect.reasoning == (REASONING,):
        return message
    rest = {name: value for name, value in message.items() if name != REASONING}
    return rest | dict.fromkeys(dialect.reasoning, message[REASONING])


def _sampling(sampling: Sampling, dialect: Dialect) -> Object:
    given = {name: getattr(sampling, name) for name in Sampling.__dataclass_fields__}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in dialect.sampling:
            raise EngineFault(f"The engine cannot be told {name}.")
    return {dialect.sampling[name]: value for name, value in given.items()}


def _tools(chat: ChatPrompt, dialect: Dialect) -> Object:
    if not chat.tools:
        return {}
    tools, choice = list(chat.tools), chat.tool_choice
    if isinstance(choice, dict) and not dialect.takes_named_choice:
        name, choice = choice["function"]["name"], "required"
        tools = [tool for tool in tools if tool["function"]["name"] == name]
    if dialect.takes_strict and chat.strict:
        tools = [_strict(tool) if tool["function"]["name"] in chat.strict else tool for tool in tools]
    return {"tools": tools} | ({} if choice is None else {"tool_choice": choice})


def _strict(tool: Object) -> Object:
    return tool | {"function": tool["function"] | {"strict": True}}


def _guide(guide: Guide | None, dialect: Dialect) -> Object:
    if guide is None:
        return {}
    if guide.kind is GuideKind.JSON:
        return {"response_format": {"type": "json_object"}}
    if guide.kind is GuideKind.JSON_SCHEMA:
        described = {"description": guide.description} if guide.description is not None else {}
        schema = {"name": guide.name, **described, "schema": loads(guide.text), "strict": guide.is_strict}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if dialect.guides is None:
        raise EngineFault(f"The engine cannot be told a guide of type {guide.kind.value}.")
    return dialect.guides(guide)
