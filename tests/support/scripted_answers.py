"""The answers of the scripted models to a prompt, and the template of such prompts.

A scripted model calls the first offered function unless its prompt ends with a result, counts the images in the prompt,
thinks when the prompt asks for reasoning, fails after "Fail.", and answers LINE otherwise. Only the standard library is
used here, because a real Triton's Python interpreter loads this file, too.
"""

from __future__ import annotations

import json
import re

LINE = "Hello there, friend."
THOUGHT = "Let me see."
PLACE = '{"city":"Rome"}'
"""The model's answer if JSON is required."""

ARGUMENTS: dict[str, dict[str, object]] = {
    "shell": {"commands": ["ls", "pwd"], "timeout_ms": 1000},
    "local_shell": {"command": ["ls", "-l"], "working_directory": "/tmp"},
    "apply_patch": {"type": "update_file", "path": "a.txt", "diff": "@@\n-old\n+new\n"},
    "computer": {"actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}, {"type": "screenshot"}]},
}
"""The arguments of calls to functions of these names."""

END = "<|im_end|>"
IMAGE = "<|image|>"
CONTROL_TOKENS = ("<|im_start|>", END, "<think>", "</think>", "<tool_call>", "</tool_call>", IMAGE)
TEMPLATE = """
{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}
{%- if message.content is string %}{{ message.content }}
{%- else %}{% for part in message.content or [] %}
{%- if part.type == 'image' %}<|image|>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
_TURN = "<|im_start|>assistant\n"
_MESSAGE = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", re.DOTALL)
_FUNCTION = re.compile(r'^\{"type": "function".*"name": "([\w-]+)"', re.MULTILINE)


def answer(prompt: str, *, images: int = 0, guide: tuple[str, str] | None = None) -> list[str]:
    """Returns the model's output in pieces, each control token as one piece. A guide has a kind, by an engine's name
    for it, and a text: a kind that begins with "json" is answered with PLACE, any other guide with its text."""
    if guide is not None:
        kind, allowed = guide
        return [PLACE if kind.startswith("json") else allowed]
    if prompt.rpartition(_TURN)[2]:
        return ["{}}", "</tool_call>"]
    messages = _MESSAGE.findall(prompt)
    role, text = messages[-1] if messages else ("user", "")
    thought = ["<think>", THOUGHT, "</think>"] if text.endswith("Think.") else []
    function = _FUNCTION.search(prompt)
    if role == "tool":
        return [*thought, f"I was told: {text}"]
    if function is not None:
        call = {"name": function[1], "arguments": ARGUMENTS.get(function[1], {"location": "San Francisco, CA"})}
        return [*thought, "<tool_call>", json.dumps(call, separators=(",", ":")), "</tool_call>"]
    return [*thought, f"I see {images} image(s)." if images else LINE]


def gives_up(prompt: str) -> bool:
    """Returns whether the model fails after its answer."""
    return prompt.endswith(f"Fail.{END}\n{_TURN}")
