"""Renders a chat template with minijinja, four times as fast as Jinja, where both write the same prompts byte for byte.

Models were trained with Jinja's prompts, so these are the reference. The twin, compiled from the same source, is used
if it agrees with Jinja on every probe (probes.py), also on which of them to reject, and is faster. Then:

* Jinja renders every conversation that the twin cannot render. So only Jinja rejects a conversation.
* The first COMPARED_FIRST prompts, and later one of COMPARED_EVERY, are rendered by both. When they differ, the twin is
  not used any more, the log says so, and Jinja's prompt is taken.
* Jinja renders what is known to differ: numbers with a fraction (1e20, 2.0) in calls and tools, and prompts with one of
  the few characters that are white space only in Python.
* The twin holds the GIL while it renders. So it gets only as many messages as it has rendered in a few milliseconds
  before, and no texts of megabytes. Jinja takes longer for those, but lets other threads run.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from operator import methodcaller
from typing import Any, NoReturn

import minijinja

log = logging.getLogger(__name__)

Context = Mapping[str, Any]
"""The variables that a template is rendered with."""

COMPARED_FIRST = 16
COMPARED_EVERY = 256
GAIN_MIN = 1.5  # times as fast as Jinja, at least
HOLD_S = 0.005  # for which one rendering may hold the GIL
TEXT_CHARS_MAX = 2**20

_GENERATION = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")
_PYTHON_SPACES = ("\x1c", "\x1d", "\x1e", "\x1f")
_ROUNDS = 3
_CALLS_OF = methodcaller("get", "tool_calls")


class MinijinjaTwin:
    """The twin of one template. Safe to use from several threads."""

    def __init__(
        self,
        source: str,
        jinja: Callable[[Context], str],
        *,
        to_json: Callable[..., str],
        raise_exception: Callable[[str], NoReturn],
        cpu_now_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`jinja` renders the same template with Jinja, `to_json` and `raise_exception` are its filter and function.
        `cpu_now_s` is the processor time of the calling thread.

        minijinja.TemplateError: the source does not compile."""
        self._jinja = jinja
        self._cpu_now_s = cpu_now_s
        self._environment = minijinja.Environment(
            trim_blocks=True, lstrip_blocks=True, pycompat=True, undefined_behavior="lenient", debug=False
        )
        self._environment.add_filter("tojson", to_json)
        self._environment.add_global("raise_exception", raise_exception)
        # minijinja has no `generation` tag, which for rendering is only a scope, as `with` is.
        self._environment.add_template("chat", _GENERATION.sub(_as_scope, source))
        self._rendered = 0
        self._messages_max = 0
        self._is_trusted = True

    def agrees(self, probes: Iterable[Context]) -> bool:
        """Whether both write the same prompt for each of these contexts, or both reject it."""
        return all(_outcome(self._write, probe) == _outcome(self._jinja, probe) for probe in probes)

    def is_faster(self, half: Context, whole: Context) -> bool:
        """Whether the twin is GAIN_MIN times as fast as Jinja for a long chat. `half` is its first half, which shows
        whether the time grows linearly."""
        half_s, whole_s = self._cpu_s(self._write, half), self._cpu_s(self._write, whole)
        jinja_s = self._cpu_s(self._jinja, whole)
        messages, is_linear = len(whole["messages"]), whole_s < 3 * half_s
        self._messages_max = int(messages * HOLD_S / whole_s) if is_linear else messages
        return GAIN_MIN * whole_s < jinja_s

    def render(self, context: Context) -> str | None:
        """The prompt; None where Jinja has to render."""
        messages = context["messages"]
        if not self._is_trusted or not self._is_short(messages) or _has_fractions(context["tools"], messages):
            return None
        started = self._cpu_now_s()
        prompt = _outcome(self._write, context)
        if prompt is None or any(space in prompt for space in _PYTHON_SPACES):
            return None
        self._adapt_max(len(messages), self._cpu_now_s() - started)
        return prompt if self._is_right(prompt, context) else None

    def _write(self, context: Context) -> str:
        return self._environment.render_template("chat", **context)

    def _cpu_s(self, render: Callable[[Context], str], context: Context) -> float:
        """The least processor time of several renderings."""
        taken: list[float] = []
        for _ in range(_ROUNDS):
            started = self._cpu_now_s()
            _outcome(render, context)
            taken.append(self._cpu_now_s() - started)
        return min(taken)

    def _is_right(self, prompt: str, context: Context) -> bool:
        """Whether the prompt is Jinja's, or is not compared this time."""
        self._rendered += 1
        if self._rendered > COMPARED_FIRST and self._rendered % COMPARED_EVERY:
            return True
        if _outcome(self._jinja, context) == prompt:
            return True
        self._is_trusted = False
        log.warning("a chat template is rendered by Jinja from now on: minijinja wrote another prompt than Jinja")
        return False

    def _is_short(self, messages: list[dict[str, Any]]) -> bool:
        return len(messages) <= self._messages_max and _chars(messages) <= TEXT_CHARS_MAX

    def _adapt_max(self, messages: int, took_s: float) -> None:
        """Adapts the number of messages that may be rendered: half of these if they took too long, twice as many if
        they took little time."""
        if took_s > 2 * HOLD_S:
            self._messages_max = max(messages // 2, 1)
        elif took_s < HOLD_S / 2 and 2 * messages > self._messages_max:
            self._messages_max = 2 * messages


def _chars(messages: list[dict[str, Any]]) -> int:
    """The characters of the messages' texts, without those in calls."""
    chars = 0
    for message in messages:
        content = message["content"]
        for part in (content,) if isinstance(content, str) else content:
            chars += len(part) if isinstance(part, str) else len(part.get("text", ""))
    return chars


def _has_fractions(tools: Any, messages: list[dict[str, Any]]) -> bool:
    return _has_fraction([tools, *filter(None, map(_CALLS_OF, messages))])


def _has_fraction(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_fraction, value.values()))
    if isinstance(value, list):
        return any(map(_has_fraction, filter(None, value)))
    return isinstance(value, float)


def _as_scope(tag: re.Match[str]) -> str:
    before, end, behind = tag.groups()
    return f"{{%{before} {'endwith' if end else 'with'} {behind}%}}"


def _outcome(render: Callable[[Context], str], context: Context) -> str | None:
    """The rendered prompt, or None if the template rejects the conversation."""
    try:
        return render(context)
    except Exception:  # noqa: BLE001 - a template can raise any error
        return None
