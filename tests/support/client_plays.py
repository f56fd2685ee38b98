"""The scripted answers of the models for other people's clients, in the output format of each model family.

A play is a question and its steps, one for each turn: a call, or a text. The number of call results behind the question
in the prompt selects the step. Any other question gets GREETING. A request that requires JSON gets CITY, or the first
value that its schema allows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GREETING = "Hello there, friend."
THOUGHT = "Let me see."
CITY = '{"name":"Rome","country":"Italy"}'


@dataclass(frozen=True)
class Call:
    """A function call of a play."""

    name: str
    arguments: Mapping[str, Any]


Step = str | Call


def _patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


PLAYS: Mapping[str, Sequence[Step]] = {
    "What is the capital of France?": ["The capital of France is Paris."],
    "And of Italy?": ["The capital of Italy is Rome."],
    "What is the weather in Paris?": [Call("get_weather", {"city": "Paris"}), "It is sunny in Paris."],
    "Count to three in numbers.txt.": [
        Call("exec_command", {"cmd": "echo one > numbers.txt"}),
        Call("exec_command", {"cmd": "echo 2 >> numbers.txt"}),
        Call("exec_command", {"cmd": "sed -i s/2/two/ numbers.txt; echo three >> numbers.txt"}),
        Call("shell", {"commands": ["echo one > numbers.txt", "echo two >> numbers.txt"]}),
        Call("shell", {"commands": ["echo three >> numbers.txt"]}),
        "The file counts to three.",
    ],
    "Write a greeting into hello.txt.": [
        Call("apply_patch", {"input": _patch("*** Add File: hello.txt", "+Hello.")}),
        Call("apply_patch", {"input": _patch("*** Update File: hello.txt", "@@", "-Hello.", "+Good morning.")}),
        "The file has a greeting.",
    ],
    "Create notes.txt.": [
        Call("apply_patch", {"type": "create_file", "path": "notes.txt", "diff": "+Hello."}),
        Call("apply_patch", {"type": "update_file", "path": "notes.txt", "diff": "@@\n-Hello.\n+Good morning."}),
        "The file has a greeting.",
    ],
    "Ask the expert about the weather in Paris.": [
        Call("transfer_to_expert", {}),
        Call("transfer_to_Expert", {}),
        Call("get_weather", {"city": "Paris"}),
        "It is sunny in Paris.",
    ],
    "Name a city.": [Call("final_result", json.loads(CITY)), CITY],
}


@dataclass(frozen=True)
class Format:
    """The output format of a model family. `result` is in the prompt once for each result of a call; `thought` is
    written before an answer, unless the prompt has its beginning already; `end` is the last token of an answer, and
    `call_end` that of a call."""

    control_tokens: Sequence[str]
    result: str
    call: Callable[[Call], str]
    thought: str = ""
    text: str = "{}"
    end: str = "<|im_end|>"
    call_end: str = "<|im_end|>"


def _hermes_call(call: Call) -> str:
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {json.dumps(call.arguments)}}}\n</tool_call>'


def _qwen_coder_call(call: Call) -> str:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in call.arguments.items()}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"


def _mistral_call(call: Call) -> str:
    return f"[TOOL_CALLS]{call.name}[ARGS]{json.dumps(call.arguments)}"


def _harmony_call(call: Call) -> str:
    return f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>{json.dumps(call.arguments)}"


_CHATML = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
_TOOL_RESPONSE = ("<tool_response>", "</tool_response>")
_SEEING = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
_NO_THOUGHT = "<think>\n\n</think>\n\n"
_THINKING = f"<think>\n{THOUGHT}\n</think>\n\n"
HERMES = Format((*_CHATML, *_TOOL_RESPONSE), "\n</tool_response>", _hermes_call, _THINKING)
QWEN_CODER = Format((*_CHATML, *_TOOL_RESPONSE, *_SEEING), "\n</tool_response>", _qwen_coder_call, _THINKING)
_MISTRAL_TOKENS = (
    "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[TOOL_RESULTS]", "[TOOL_CONTENT]", "[/TOOL_RESULTS]",
)  # fmt: skip
MISTRAL = Format(_MISTRAL_TOKENS, "[/TOOL_RESULTS]", _mistral_call, end="</s>", call_end="</s>")
HARMONY = Format(
    ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"),
    " to=assistant<|channel|>commentary", _harmony_call,
    thought=f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant",
    text="<|channel|>final<|message|>{}", end="<|return|>", call_end="<|call|>",
)  # fmt: skip


def answer(prompt: str, form: Format, *, images: int = 0, guide: str | None = None) -> list[str]:
    """Returns the answer in pieces: each control token is one piece, and the last piece is the end token."""
    if guide is not None:
        return [guide, form.end]
    step = f"I see {images} image(s)." if images else next_step(prompt, form)
    said = form.call(step) if isinstance(step, Call) else form.text.format(step)
    last = form.call_end if isinstance(step, Call) else form.end
    begun = _overlap(prompt, said)
    thought = form.thought[_overlap(prompt, form.thought) :]
    if begun or prompt.endswith(_NO_THOUGHT):
        thought = ""
    whole = thought + said[begun:]
    return [*pieces(whole, form), last]


def example(schema: Mapping[str, Any], name: str = "") -> Any:
    """Returns a value that a simple schema allows. Members of CITY get the values of CITY."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: example(member, name) for name, member in schema.get("properties", {}).items()}
        case "array":
            return [example(schema["items"])]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return json.loads(CITY).get(name, "text")


def next_step(prompt: str, form: Format) -> Step:
    """Returns the next step of the last question. Calls of functions that are neither offered nor were called are
    skipped."""
    asked = max(PLAYS, key=prompt.rfind)
    place = prompt.rfind(asked)
    if place < 0:
        return GREETING
    steps = [step for step in PLAYS[asked] if isinstance(step, str) or _is_known(prompt, step.name, place)]
    return steps[min(prompt.count(form.result, place), len(steps) - 1)]


def _is_known(prompt: str, name: str, place: int) -> bool:
    """Returns whether the function is offered, as JSON or as TypeScript, or was called after this position."""
    return f'"name": "{name}"' in prompt or f"type {name} = " in prompt or name in prompt[place:]


def pieces(text: str, form: Format) -> list[str]:
    """Splits the text at its control tokens."""
    names = "|".join(map(re.escape, form.control_tokens))
    return [piece for piece in re.split(f"({names})", text) if piece]


def _overlap(prompt: str, text: str) -> int:
    """Returns the length of the longest beginning of `text` that the prompt ends with."""
    return next((length for length in range(len(text), 0, -1) if prompt.endswith(text[:length])), 0)
