from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Image, Message
from antiphon_translator.templates.jinja import InvalidTemplate, JinjaTemplate
from tests.support.served_models import FILES

NOW_S = 1_700_000_000  # 2023-11-14 22:13:20 UTC
IMAGE = Image(b"", "png", 1, 1)
TEXTS = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


def render(source: str, *messages: Message, **special_tokens: str) -> str:
    shown = Conversation(messages or (Message("user", ("Hi",)),))
    return JinjaTemplate(source, special_tokens=special_tokens).render(shown, now_s=NOW_S)


def test_chatml_template_renders_the_conversation() -> None:
    source = (FILES / "chat_template.jinja").read_text("utf-8")
    assert render(source, Message("system", ("Be brief.",)), Message("user", ("Hi",))) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("  {% if true %}\na\n  {% endif %}\nb", "a\nb"),
        ("{% for n in range(9) %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}", "01"),
        ("{% generation %}{% set x = 1 %}a{% endgeneration %}{{ x is defined }}", "aFalse"),
        ('{{ {"a": "<é>", "b": [1]} | tojson }}', '{"a": "<é>", "b": [1]}'),
        ('{{ {"b": 1, "a": 2} | tojson(indent=1, sort_keys=true) }}', '{\n "a": 2,\n "b": 1\n}'),
        ("{{ strftime_now('%d %b %Y %H:%M') }}", "14 Nov 2023 22:13"),
        ("{{ bos_token }}{{ add_generation_prompt }}{{ tools }}", "<s>TrueNone"),
        ("{{ unknown is defined }}{{ documents is none }}", "FalseTrue"),
        ("<b>{{ messages[0].content }}</b>", "<b>Hi</b>"),
    ],
)
def test_template_renders_as_in_hugging_face_transformers(source: str, expected: str) -> None:
    assert render(source, bos_token="<s>") == expected


def test_message_text_is_neither_escaped_nor_evaluated() -> None:
    assert render(TEXTS, Message("user", ("{{ 7*7 }} <b>",))) == "[user:{{ 7*7 }} <b>]"


def test_roles_are_passed_to_the_template_unchanged() -> None:
    asked = (Message("developer", ("a",)), Message("system", ("b", "c")), Message("system", ("d",)))
    assert render(TEXTS, *asked) == "[developer:a][system:b\nc][system:d]"


def test_the_name_of_a_speaker_is_passed_to_the_template() -> None:
    source = "{% for m in messages %}[{{ m.name if 'name' in m else '-' }}:{{ m.content }}]{% endfor %}"
    asked = (Message("user", ("a",), name="bob"), Message("user", ("b",)), Message("tool", ("c",), call_id="d"))
    assert render(source, *asked) == "[bob:a][-:b][:c]"


def test_content_is_a_list_for_templates_that_loop_over_it() -> None:
    source = "{% for m in messages %}{% for p in m.content %}<{{ p.type }} {{ p.text }}>{% endfor %}{% endfor %}"
    assert render(source, Message("user", ("a", "b"))) == "<text a><text b>"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('Roles must alternate.') }}", "Roles must alternate."),
        ("{{ messages[0].content.nothing.more }}", "nothing"),
        ("{{ messages[0].content + 1 }}", "str"),
        ("{{ messages.append(1) }}", "append"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages[7].content }}", "undefined|no element"),
    ],
)
def test_template_that_raises_is_an_invalid_request(source: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        render(source)
    assert caught.value.field == "input"


def test_template_that_does_not_compile_is_an_error_with_its_line() -> None:
    with pytest.raises(InvalidTemplate, match="line 2"):
        JinjaTemplate("a\n{% for %}", special_tokens={})


def test_images_keep_their_positions_in_the_content_list() -> None:
    source = "{% for m in messages %}{% for p in m.content %}<{{ p.type }} {{ p.text }}>{% endfor %}{% endfor %}"
    assert render(source, Message("user", ("a", IMAGE, "b", IMAGE))) == "<text a><image ><text b><image >"


@pytest.mark.parametrize(
    ("source", "prompt"),
    [
        (TEXTS, "[user:a\n<image>\nb]"),
        ("{% for m in messages %}{% for p in m.content %}<{{ p.type }} {{ p.text }}>{% endfor %}{% endfor %}", None),
    ],
)
def test_configured_image_token_replaces_an_image(source: str, prompt: str | None) -> None:
    template = JinjaTemplate(source, special_tokens={}, image_token="<image>")
    shown = Conversation((Message("user", ("a", IMAGE, "b")),))
    assert template.image_mark == "<image>"
    assert template.render(shown, now_s=NOW_S) == (prompt or "<text a><text <image>><text b>")


def test_template_of_texts_leaves_images_out() -> None:
    assert render(TEXTS, Message("user", ("a", IMAGE, "b"))) == "[user:a\nb]"
    assert render(TEXTS, Message("user", (IMAGE,))) == "[user:]"
