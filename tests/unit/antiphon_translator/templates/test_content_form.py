from __future__ import annotations

import pytest

from antiphon_translator.conversation import Call, Conversation, Image, Message
from antiphon_translator.templates.content_form import ContentForm, ContentForms
from antiphon_translator.templates.jinja import JinjaTemplate

IMAGE = Image(b"", "png", 1, 1)
LOOP = "{% for part in m.content %}{{ part.text }}{% if part.type == 'image' %}[IMG]{% endif %}{% endfor %}"
EITHER = "{% if m.content is string %}{{ m.content }}{% else %}" + LOOP + "{% endif %}"


def shown(body: str, *messages: Message) -> str:
    template = JinjaTemplate("{% for m in messages %}<" + body + ">{% endfor %}", special_tokens={})
    return template.render(Conversation(messages), now_s=0)


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        ("{{ m.content }}", "<one\ntwo>"),
        ("{{ m['content'] | trim }}", "<one\ntwo>"),
        (EITHER, "<one\ntwo>"),
        (LOOP, "<onetwo>"),
        ("{% set c = m.content %}{% for p in c %}{{ p['text'] }}{% endfor %}", "<onetwo>"),
        ("{{ m.content | map(attribute='text') | join(' ') }}", "<one two>"),
    ],
)
def test_message_of_texts_is_one_text_unless_only_a_list_shows_it(body: str, prompt: str) -> None:
    assert shown(body, Message("user", ("one", "two"))) == prompt


def test_message_with_an_image_is_a_list_where_the_template_reads_lists() -> None:
    assert shown(EITHER, Message("user", ("one", IMAGE))) == "<one[IMG]>"
    assert shown("{{ m.content }}", Message("user", ("one", IMAGE))) == "<one>"


def test_each_role_has_the_form_that_its_branch_reads() -> None:
    body = "{% if m.role == 'tool' %}{{ m.content }}{% else %}" + LOOP + "{% endif %}{{ m.tool_calls or '' }}"
    calling = Message("assistant", (), calls=(Call("1", "f", {}),))
    prompt = shown(body, Message("user", ("one",)), calling, Message("tool", ("two",), call_id="1", name="f"))
    assert (prompt[:5], prompt[-5:]) == ("<one>", "<two>")


def test_list_that_may_not_be_empty_has_an_empty_part() -> None:
    body = "{{ m.content[0].text }}{% if m.tool_calls %}f{% endif %}"
    calling = Message("assistant", (), calls=(Call("1", "f", {}),))
    assert shown(body, Message("user", ("one",)), calling) == "<one><f>"


def test_kind_without_a_known_form_is_a_text() -> None:
    assert ContentForms().of(Message("user", ("one", IMAGE))) is ContentForm.TEXT


def test_assistant_message_with_calls_is_of_another_kind_only_without_text() -> None:
    forms, calls = ContentForms({"calling": ContentForm.PARTS}), (Call("1", "f", {}),)
    shown = [forms.of(Message("assistant", parts, calls=calls)) for parts in ((), ("a",))]
    assert shown == [ContentForm.PARTS, ContentForm.TEXT]
