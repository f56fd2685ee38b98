"""The wire format of chat completions: the body of a request, and the chunks of a stream, read as segments.

Servers differ in the members that they take beyond OpenAI's standard. A server names its kind as `owned_by` in its list
of models, and `DIALECTS` says what each kind takes. A server of an unknown kind is sent standard members only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object, loads
from antiphon_translator.generation import (
    UNLIMITED,
    ChatChunk,
    ChatPrompt,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Sampling,
    Usage,
)
from antiphon_translator.parsing.segments import Output, Segment

STANDARD = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")
_NON_STANDARD = ("top_k", "min_p", "repetition_penalty")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The request members that one kind of server takes. `sampling` maps members of Sampling to the server's own names.
    `guides` writes a guide that the standard cannot express: a regular expression or a grammar. `takes_switches`: the
    server takes variables for its chat template (`ChatPrompt.switches`)."""

    sampling: Mapping[str, str]
    guides: Callable[[Guide], Object] | None = None
    takes_switches: bool = False
    takes_ignore_eos: bool = False

    @property
    def controls(self) -> frozenset[str]:
        """As in engines.base.Engine. All servers take images, in messages, and LoRA adapters, as names of models."""
        others = {"ignore_eos"} if self.takes_ignore_eos else set()
        return frozenset((*self.sampling, *others, "guide", "stop", "logprobs", "top_logprobs", "images", "lora"))


def _named(*names: str, **others: str) -> dict[str, str]:
    return {name: name for name in (*STANDARD, *names)} | others


def _vllm_guide(guide: Guide) -> Object:
    return {"structured_outputs": {"regex" if guide.kind is GuideKind.REGEX else "grammar": guide.text}}


def _sglang_guide(guide: Guide) -> Object:
    return {"regex" if guide.kind is GuideKind.REGEX else "ebnf": guide.text}


PLAIN = Dialect(_named())
DIALECTS: Mapping[str, Dialect] = {
    "vllm": Dialect(_named(*_NON_STANDARD), _vllm_guide, takes_switches=True, takes_ignore_eos=True),
    "sglang": Dialect(_named(*_NON_STANDARD), _sglang_guide, takes_switches=True, takes_ignore_eos=True),
    "llamacpp": Dialect(
        _named("top_k", "min_p", repetition_penalty="repeat_penalty"), takes_switches=True, takes_ignore_eos=True
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


def listed(models: Object) -> list[ListedModel]:
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
        "messages": list(chat.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        **_sampling(request.sampling, dialect),
        **_tools(chat),
        **_guide(request.guide, dialect),
    }
    if request.max_tokens != UNLIMITED:
        written["max_tokens"] = request.max_tokens
    if request.stop:
        written["stop"] = list(request.stop)
    if tells_cache_key and request.cache_key is not None:
        written["prompt_cache_key"] = request.cache_key
    if request.ignore_eos:
        written["ignore_eos"] = True
    if request.top_logprobs is not None:
        # With 0 alternatives llama.cpp gives no log probabilities at all. The reader leaves out the one too many.
        written |= {"logprobs": True, "top_logprobs": max(request.top_logprobs, 1)}
    if chat.switches and dialect.takes_switches:
        written["chat_template_kwargs"] = dict(chat.switches)
    return written


def _sampling(sampling: Sampling, dialect: Dialect) -> Object:
    given = {name: getattr(sampling, name) for name in Sampling.__dataclass_fields__}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in dialect.sampling:
            raise EngineFault(f"The engine cannot be told {name}.")
    return {dialect.sampling[name]: value for name, value in given.items()}


def _tools(chat: ChatPrompt) -> Object:
    if not chat.tools:
        return {}
    return {"tools": list(chat.tools)} | ({} if chat.tool_choice is None else {"tool_choice": chat.tool_choice})


def _guide(guide: Guide | None, dialect: Dialect) -> Object:
    if guide is None:
        return {}
    if guide.kind is GuideKind.JSON:
        return {"response_format": {"type": "json_object"}}
    if guide.kind is GuideKind.JSON_SCHEMA:
        described = {"description": guide.description} if guide.description is not None else {}
        schema = {"name": guide.name, **described, "schema": loads(guide.text), "strict": guide.strict}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if dialect.guides is None:
        raise EngineFault(f"The engine cannot be told a guide of type {guide.kind.value}.")
    return dialect.guides(guide)


_FINISH: Mapping[str, FinishReason] = {
    **dict.fromkeys(("stop", "tool_calls", "function_call"), FinishReason.STOP),
    **dict.fromkeys(("stop_sequence", "eos_token"), FinishReason.STOP),  # of Hugging Face's TGI
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


@dataclass(frozen=True, slots=True)
class OpenCall:
    """The call that the stream is in, as its first piece named it, and its arguments so far, without blank pieces.

    A standard server numbers its calls by `index`, and names a call in its first piece only. Gemini leaves out the
    index or sends null, Ollama sends 0 for all calls (ollama/ollama#15457), some proxies repeat name and id in each
    piece.
    """

    name: str
    id: str | None
    index: int | None
    arguments: list[str] = field(default_factory=list)

    def is_continued_by(self, piece: Mapping[str, Any], name: str | None, arguments: str) -> bool:
        """Whether a piece belongs to this call: nothing that it says differs. A piece with a name but no id begins a
        call if it has no index, or if it has arguments although those so far are complete."""
        id_, index = piece.get("id") or None, piece.get("index")
        if index is not None and self.index is not None and index != self.index:
            return False
        if not name:
            return True
        if id_ is None and (index is None or (arguments and self._is_complete())):
            return False
        return name == self.name and id_ in (None, self.id)

    def _is_complete(self) -> bool:
        """Whether the arguments are a whole JSON object, which no further piece can continue. A server that repeats the
        name in each piece asks this for each, and parsing all arguments each time would take quadratic time."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(loads("".join(self.arguments)), dict)
        except ValueError:
            return False


class ChunkReader:
    """Reads the chunks of one stream. A call ends where the next call, text or reasoning begins.

    The request asked for one choice. So other choices are ignored, and everything after the finish reason of the first.
    """

    def __init__(self) -> None:
        self.is_complete = False
        """Whether the server sent the finish reason."""
        self._output = Output()
        self._call: OpenCall | None = None
        self._finish: FinishReason | None = None
        self._usage: Usage | None = None

    def read(self, chunk: Object) -> ChatChunk | None:
        """Reads a chunk and returns its segments. EngineFault: the chunk cannot be read, or says that the generation
        was broken off."""
        try:
            if chunk.get("usage"):
                self._usage = _usage(chunk["usage"])
            for choice in chunk.get("choices") or ():
                if not self.is_complete and not choice.get("index"):
                    self._take_choice(choice)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise EngineFault("The engine sent a chunk that cannot be read.") from error
        segments = self._take_segments()
        return ChatChunk(segments=segments) if segments else None

    def finish(self) -> ChatChunk:
        """Returns the last chunk: segments that were held back, the finish reason and the usage."""
        self._end_call()
        self._output.finish()
        return ChatChunk(segments=self._take_segments(), finish=self._finish, usage=self._usage)

    def _take_segments(self) -> list[Segment]:
        """Takes the segments that are ready."""
        return self._output.take()

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        self._take(choice.get("delta") or {})
        if reason := choice.get("finish_reason"):  # some servers send "" instead of null before the end
            self._take_finish_reason(reason)

    def _take(self, delta: Mapping[str, Any]) -> None:
        if reasoning := reasoning_in(delta):
            self._end_call()
            self._output.reasoning(reasoning)
        if content := delta.get("content"):
            self._end_call()
            self._output.text(content)
        for call in delta.get("tool_calls") or ():
            self._take_call(call)

    def _take_call(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments") or ""
        is_continued = self._call is not None and self._call.is_continued_by(piece, name, arguments)
        if name and not is_continued:
            self._end_call()
            self._call = OpenCall(name, piece.get("id") or None, piece.get("index"))
            self._output.begin_call(name, self._call.id)
        elif arguments and not is_continued:
            raise EngineFault("The engine mixed up the arguments of two calls.")
        if self._call is not None and arguments.strip():
            self._call.arguments.append(arguments)
        self._output.arguments(arguments)

    def _end_call(self) -> None:
        """Ends the open call. Many servers send no arguments for a function without parameters."""
        if self._call is not None:
            if not self._call.arguments and self._finish in (None, FinishReason.STOP):
                self._output.arguments("{}")
            self._output.end_call()
            self._call = None

    def _take_finish_reason(self, reason: str) -> None:
        self.is_complete = True
        if reason not in _FINISH:
            raise EngineFault(f"The engine broke off the generation: {reason}.")
        self._finish = _FINISH[reason]


def reasoning_in(delta: Mapping[str, Any]) -> str:
    """The reasoning in a delta, under either of its names."""
    return delta.get("reasoning_content") or delta.get("reasoning") or ""


def _usage(given: Mapping[str, Any]) -> Usage:
    """The usage. Servers leave out the details that they do not count, or send null."""
    prompt, completion = (given.get(f"{name}_tokens_details") or {} for name in ("prompt", "completion"))
    return Usage(
        input_tokens=int(given["prompt_tokens"]),
        output_tokens=int(given["completion_tokens"]),
        reasoning_tokens=int(completion.get("reasoning_tokens") or given.get("reasoning_tokens") or 0),
        cached_tokens=int(prompt.get("cached_tokens") or 0),
    )
