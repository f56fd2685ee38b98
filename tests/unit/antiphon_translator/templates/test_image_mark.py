"""Image marks of real templates, and of templates whose mark is hard to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_translator.conversation import Conversation, Image, Message
from antiphon_translator.templates import image_mark
from antiphon_translator.templates.jinja import JinjaTemplate

GOLDEN = Path(__file__).parents[3] / "golden/templates"
QWEN2_VL = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in "
    "content %}<|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAVA = (
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': ' }}{% endif %}"
    "{# Render all images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' ' }}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
APART = (
    "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}<|PATCH|>"
    "{% else %}<|TEXT|>{{ c.text }}<|/TEXT|>{% endif %}{% endfor %}<|end|>{% endfor %}"
)
LOOP = "{% for m in messages %}{% for c in m.content %}"


def template(source: str) -> JinjaTemplate:
    return JinjaTemplate(source, special_tokens={"bos_token": "<s>"})


@pytest.mark.parametrize(
    ("source", "mark"),
    [
        (QWEN2_VL, "<|vision_start|><|image_pad|><|vision_end|>"),
        (LLAVA, "<image>"),
        (APART, "<|PATCH|><|"),  # the mark includes the text that is always around it
        (
            LOOP + "{{ '<start_of_image>' if c.type == 'image' else c.text | trim }}{% endfor %}{% endfor %}",
            "<start_of_image>",
        ),
        (LOOP + "{{ '[IMG]' if c.type == 'image' else c.text }}{% endfor %}[/INST]{% endfor %}", "[IMG]"),
        (LOOP + "{{ c.text }}{% endfor %}{% endfor %}", ""),
        (LOOP + "{% if c.type == 'image' %}{{ raise_exception('No.') }}{% endif %}{% endfor %}{% endfor %}", ""),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", ""),
        ("{{ raise_exception('No.') }}", ""),
    ],
)
def test_image_mark_is_the_text_that_only_prompts_with_images_have(source: str, mark: str) -> None:
    assert template(source).image_mark == mark


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("Qwen3.5-4B", "<|vision_start|><|image_pad|><|vision_end|>"),
        ("Mistral-Small-3.2-24B-Instruct-2506", "[IMG]"),
        ("Qwen-Qwen3-0.6B", ""),
        ("GLM-4.6", ""),
        ("MiniMax-M2", ""),
        ("deepseek-ai-DeepSeek-V3.2", ""),
    ],
)
def test_image_marks_of_real_templates_are_detected(name: str, mark: str) -> None:
    assert template((GOLDEN / f"{name}.jinja").read_text("utf-8")).image_mark == mark


@pytest.mark.parametrize("source", [QWEN2_VL, LLAVA, APART])
@pytest.mark.parametrize("images", range(4))
def test_adjacent_image_marks_are_counted(source: str, images: int) -> None:
    shown = template(source)
    parts: tuple[str | Image, ...] = ("x", *[Image(b"", "png", 1, 1)] * images, "y")
    prompt = shown.render(Conversation((Message("user", parts),)), now_s=0)
    assert image_mark.count(prompt, shown.image_mark) == images


def test_count_without_an_image_mark_is_zero() -> None:
    assert image_mark.count("abc", "") == 0
    assert image_mark.count("|a|a|", "|a|") == 2
