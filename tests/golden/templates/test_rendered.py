"""The prompt of one conversation with every kind of item, with each real template, as it was read by eye once.

To record them again after a change that is meant: `python -m tests.golden.templates.test_rendered`."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.parsing import families
from antiphon_translator.prompt import call_ids, conversation_items
from antiphon_translator.templates import role_probe
from antiphon_translator.templates.jinja import JinjaTemplate

HERE = Path(__file__).parent
RENDERED = HERE / "rendered"
TEMPLATES = [path for path in sorted(HERE.glob("*.jinja")) if "gpt-oss" not in path.name]  # prompts of these: harmony
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def tool(name: str, **properties: Object) -> Object:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


TOOLS = [tool("get_weather", city={"type": "string"}, days={"type": "integer"}), tool("exec", input={"type": "string"})]
ITEMS: list[Object] = [
    {"role": "developer", "content": "Answer in French."},
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "Weather in"}, {"type": "input_text", "text": "Rome?"}],
    },
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I need the tool."}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Rome", "days": 3}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "Sunny, 21 °C"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Il fait beau."}]},
    {"role": "user", "content": "And in Oslo? Then run ls."},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Two tools at once."}]},
    {"type": "function_call", "call_id": "call_2", "name": "get_weather", "arguments": '{"city": "Oslo"}'},
    {"type": "custom_tool_call", "call_id": "call_3", "name": "exec", "input": "ls -l"},
    {
        "type": "function_call_output",
        "call_id": "call_2",
        "output": [{"type": "input_text", "text": '{"sky": "gray"}'}],
    },
    {"type": "custom_tool_call_output", "call_id": "call_3", "output": ""},
]


def rendered(path: Path) -> str:
    source = path.read_text("utf-8")
    template = JinjaTemplate(source, special_tokens=SPECIAL_TOKENS)
    ids = call_ids.of(families.load(families.detect(source, ())).prompt.call_id, template.render)
    conversation, _ = conversation_items.build(
        instructions="You are brief.", history=[], given=ITEMS, tools=TOOLS, ids=ids
    )
    return template.render(role_probe.of(template.render).adapt(conversation), now_s=1_700_000_000)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_prompt_with_every_kind_of_item_is_as_it_was_read(path: Path) -> None:
    assert rendered(path) == (RENDERED / f"{path.stem}.txt").read_text("utf-8")


def main() -> None:
    RENDERED.mkdir(exist_ok=True)
    for path in TEMPLATES:
        (RENDERED / f"{path.stem}.txt").write_text(rendered(path), "utf-8")


if __name__ == "__main__":
    main()
