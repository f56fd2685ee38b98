from typing import Any

import jinja2

from antiphon_local_triton.model_directory import CHATML_TEMPLATE


def _render(messages: list[dict[str, Any]], **variables: Any) -> str:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    template = environment.from_string(CHATML_TEMPLATE.read_text("utf-8"))
    return template.render(messages=messages, add_generation_prompt=True, **variables)


def test_no_default_system_prompt_is_added() -> None:
    assert _render([{"role": "user", "content": "Hi"}]) == ("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_turns_are_kept_in_order() -> None:
    turns = [{"role": role, "content": role.upper()} for role in ("system", "user", "assistant")]
    assert _render(turns) == (
        "<|im_start|>system\nSYSTEM<|im_end|>\n<|im_start|>user\nUSER<|im_end|>\n"
        "<|im_start|>assistant\nASSISTANT<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tools_join_the_system_prompt_and_calls_stay_in_the_history() -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    text = _render(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "2"},
        ],
        tools=[{"type": "function", "function": {"name": "add"}}],
    )
    assert text.startswith("<|im_start|>system\nBe brief.\n\nYou can call these functions:\n<tools>\n{")
    assert text.count("Be brief.") == 1
    assert '<|im_start|>assistant\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>' in text
    assert "<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n" in text
