"""Chat templates in Jinja, with the semantics that Hugging Face's own renderer has.

A template comes from the operator (a model directory or a file), never from a request, and still runs in Jinja's
immutable sandbox: it sees plain JSON data and a few functions, nothing else. The features of Hugging Face's renderer
that templates rely on: trim_blocks and lstrip_blocks, loop controls, the `generation` tag, a `tojson` that does not
escape HTML, `raise_exception`, `strftime_now`.

How a conversation is passed to a template:

* A message's content is one text (parts joined by a line break), or a list of parts where only that shows it
  (content_form.py). Both, and the text that the template writes for an image (image_mark.py), are found by rendering
  when the template is loaded. Where the profile names an `image_token`, an image becomes that text.
* Roles are passed as they are: roles.py has rewritten the conversation into those that the template reads.
* Reasoning, calls and their results are in the members that templates read: `reasoning_content`, `tool_calls`
  (arguments as objects), messages of the role `tool`.
* Switches (`enable_thinking` and the like) are passed only to a template that reads them.
* To continue the last message, that message is rendered with a tag at its end, and the prompt is cut there.
* `strftime_now` has the time of the turn, in UTC, so that rendering depends on its arguments only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

import minijinja
from jinja2 import TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as LoopControls
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Call, Conversation, Image, Message
from antiphon_translator.templates import content_form, image_mark, probes
from antiphon_translator.templates.content_form import ContentForm, ContentForms
from antiphon_translator.templates.minijinja_twin import MinijinjaTwin


class InvalidTemplate(Exception):
    """The template does not compile. The message says why and where."""


class JinjaTemplate:
    """One compiled chat template."""

    def __init__(
        self,
        source: str,
        *,
        special_tokens: Mapping[str, str],
        image_token: str | None = None,
        forms: ContentForms | None = None,
    ) -> None:
        """`special_tokens` are `bos_token`, `eos_token` and the like; `image_token` is the text that stands for an
        image; `forms` are found by rendering if they are not given. InvalidTemplate: the source does not compile."""
        environment = _environment()
        try:
            tree = environment.parse(source)
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise InvalidTemplate(f"{error.message} (line {error.lineno})") from error
        self._special_tokens = dict(special_tokens)
        self.variables = frozenset(meta.find_undeclared_variables(tree))
        """The names of the variables that the template reads."""
        self.literals = _literals(tree) | set(self._special_tokens.values()) | {image_token or ""}
        """All texts that the template itself contains."""
        self._image_token = image_token
        self._twin: MinijinjaTwin | None = None
        self._forms = forms or ContentForms()
        if forms is None:
            self._forms = content_form.of(self._rendered_with)
        self._twin = self._twin_of(source)
        self.image_mark = image_token or image_mark.of(self.render)
        """The text that stands for an image in the prompt; empty if there is none."""

    def render(self, conversation: Conversation, *, now_s: int, switches: Mapping[str, Any] | None = None) -> str:
        """The prompt, up to where the model continues. InvalidRequest: the template rejects the conversation."""
        prompt = self._render(self._context(conversation, now_s, switches))
        return _cut_at_tag(prompt) if conversation.continues_last else prompt

    def render_turns(self, conversation: Conversation, *, now_s: int = 0) -> str:
        """The conversation without the generation prompt at its end. InvalidRequest, as `render`."""
        return self._render({**self._context(conversation, now_s), "add_generation_prompt": False})

    def _rendered_with(self, conversation: Conversation, forms: ContentForms) -> str:
        """The prompt with other forms of content, while those of the template are looked for."""
        self._forms = forms
        return self.render(conversation, now_s=0)

    def _context(
        self, conversation: Conversation, now_s: int = 0, switches: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The variables that the template is rendered with."""
        messages = conversation.each(self._message_object)
        if conversation.continues_last:
            _tag(messages[-1])
        return {
            **{name: value for name, value in (switches or {}).items() if name in self.variables},
            **self._special_tokens,
            "messages": messages,
            "add_generation_prompt": not conversation.continues_last,
            "tools": list(conversation.tools) or None,
            "documents": None,
            "strftime_now": _clock(now_s),
        }

    def _render(self, context: Mapping[str, Any]) -> str:
        prompt = self._twin.render(context) if self._twin is not None else None
        if prompt is not None:
            return prompt
        try:
            return self._template.render(context)
        except _TEMPLATE_FAULTS as error:
            raise InvalidRequest(
                f"The chat template of this model rejects the conversation: {error}", field="input"
            ) from error

    def _twin_of(self, source: str) -> MinijinjaTwin | None:
        """Creates the minijinja template that renders in place of Jinja; None if its prompts differ or it is not
        faster."""
        try:
            twin = MinijinjaTwin(source, self._template.render, to_json=_to_json, raise_exception=_raise)
        except minijinja.TemplateError:
            return None
        known = [{name: value for name, value in each.items() if name in self.variables} for each in _SWITCHES]
        contexts = (
            self._context(probe, switches=switches)
            for switches in [{}, *filter(None, known)]
            for probe in probes.conversations()
        )
        half, whole = (self._context(probes.long_chat(messages)) for messages in _LONG)
        return twin if twin.agrees(contexts) and twin.is_faster(half, whole) else None

    def _message_object(self, message: Message) -> dict[str, Any]:
        role = message.role
        shown = Message(role, (message.text,)) if role == "system" else message
        written: dict[str, Any] = {"role": role, "content": self._content(shown)}
        if message.reasoning:
            written |= {"reasoning_content": message.reasoning, "thinking": message.reasoning}
        if message.calls:
            written["tool_calls"] = [_call_object(call) for call in message.calls]
        if message.call_id:
            written |= {"tool_call_id": message.call_id, "name": message.name}
        elif message.name:
            written["name"] = message.name
        return written

    def _content(self, message: Message) -> str | list[dict[str, str]]:
        token, form = self._image_token, self._forms.of(message)
        if form is ContentForm.TEXT and not (token and message.images):
            return message.text
        parts = [token if token and isinstance(part, Image) else part for part in message.parts]
        if form is ContentForm.TEXT:
            return "\n".join(part for part in parts if isinstance(part, str))
        if form is ContentForm.PART:
            parts = parts or [""]
        return [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in parts]


def _literals(tree: nodes.Template) -> set[str]:
    """The texts in the source of a template, between its tags and as strings in them."""
    data = {node.data for node in tree.find_all(nodes.TemplateData)}
    return data | {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}


def _call_object(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


_SWITCHES: tuple[Mapping[str, Any], ...] = (
    {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
)
_LONG = (64, 128)  # messages, to compare the speed of the renderers


_TAG = "CONTINUE_FINAL_MESSAGE_TAG "


def _tag(message: dict[str, Any]) -> None:
    """Appends the tag to a message's content."""
    if isinstance(message["content"], str):
        message["content"] += _TAG
    elif message["content"]:
        message["content"][-1]["text"] += _TAG
    else:
        message["content"] = [{"type": "text", "text": _TAG}]


def _cut_at_tag(prompt: str) -> str:
    """The prompt up to the end of the tagged message. InvalidRequest: the template left the message out."""
    end = prompt.rfind(_TAG.rstrip())
    if end < 0:
        raise InvalidRequest("This model cannot continue the last message of the input.", field="input")
    is_trimmed = not prompt.startswith(_TAG, end)
    return prompt[:end].rstrip() if is_trimmed else prompt[:end]


# The errors of a template: of raise_exception, of the sandbox, and Python's own on data that it does not expect.
_TEMPLATE_FAULTS = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class _Generation(Extension):
    """The tag `{% generation %}...{% endgeneration %}`, which marks the model's output for training. For rendering it
    is only a scope."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_body")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, LoopControls]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _clock(now_s: int) -> Callable[[str], str]:
    return lambda form: datetime.fromtimestamp(now_s, UTC).strftime(form)
