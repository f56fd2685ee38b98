"""Chat templates in Jinja, with the semantics that Hugging Face's own renderer has.

A template comes from the operator (a model directory or a file), never from a request, and still runs in Jinja's
immutable sandbox: it sees plain JSON data and a handful of functions, nothing else. What has to be the same as there,
because templates rely on it: trim_blocks and lstrip_blocks, loop controls, the `generation` tag, a `tojson` that does
not escape HTML, `raise_exception`, `strftime_now`.

How a conversation is put to a template:

* A message's content is a list of text parts for templates that loop over the content, and one text (parts joined by
  a line break) for all others. Which of the two is read from the template's syntax tree when it is loaded.
* `developer` becomes `system` for templates that do not know the role, and system messages that stand next to each
  other become one, separated by a blank line: most templates allow a single one.
* `strftime_now` tells the time of the turn, in UTC, so that rendering is a function of its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as LoopControls
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.templates.content_format import loops_over_content


class InvalidTemplate(Exception):
    """The template does not compile. The message says why and where."""


class JinjaTemplate:
    """One compiled chat template."""

    def __init__(self, source: str, *, special_tokens: Mapping[str, str]) -> None:
        """`special_tokens` are `bos_token`, `eos_token` and the like. InvalidTemplate."""
        environment = _environment()
        try:
            tree = environment.parse(source)
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise InvalidTemplate(f"{error.message} (line {error.lineno})") from error
        self._special_tokens = dict(special_tokens)
        self._content_is_list = loops_over_content(tree)
        self._knows_developer = "developer" in source

    def render(self, conversation: Conversation, *, now_s: int) -> str:
        """The prompt up to where the model has to go on. InvalidRequest: the template refuses the conversation."""
        offered = {
            **self._special_tokens,
            "messages": [self._plain(message) for message in self._merged(conversation.messages)],
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
            "strftime_now": _clock(now_s),
        }
        try:
            return self._template.render(offered)
        except _TEMPLATE_FAULTS as error:
            raise InvalidRequest(
                f"The chat template of this model refuses the conversation: {error}", field="input"
            ) from error

    def _merged(self, messages: Iterable[Message]) -> Iterator[Message]:
        for role, run in groupby(messages, key=self._role):
            if role == "system":
                yield Message(role, ("\n\n".join(message.text for message in run),))
            else:
                yield from (Message(role, message.parts) for message in run)

    def _role(self, message: Message) -> str:
        renamed = message.role == "developer" and not self._knows_developer
        return "system" if renamed else message.role

    def _plain(self, message: Message) -> dict[str, Any]:
        if self._content_is_list:
            return {"role": message.role, "content": [{"type": "text", "text": part} for part in message.parts]}
        return {"role": message.role, "content": message.text}


# What a template can raise: its own raise_exception, the sandbox, and Python's errors on data it did not expect.
_TEMPLATE_FAULTS = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks what the model wrote; for rendering it is a scope, no more."""

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
