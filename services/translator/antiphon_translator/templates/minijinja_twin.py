"""A chat template in minijinja, for where that writes byte for byte what Jinja writes: four times as fast.

Jinja is what models were trained with, and what counts. Its twin, compiled from the same source, is used if it agrees
with Jinja on every probe (probes.py), also on which of them to refuse, and is faster. And then:

* Whatever it cannot render, Jinja is asked for. So refusals are always Jinja's.
* The first COMPARED_FIRST prompts, and one of COMPARED_EVERY later on, are rendered by both. When they differ, the twin
  is given up for good, the log says so, and Jinja's prompt counts.
* What is known to differ is Jinja's: numbers with a fraction (1e20, 2.0) in calls and tools, and the few characters
  that only Python takes for white space.
* It holds the GIL as long as it renders, so it is given as many messages only as it has been seen to render in a few
  milliseconds, and no texts of megabytes. For more, Jinja takes longer, but lets other threads run.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import minijinja

log = logging.getLogger(__name__)

Rendering = Mapping[str, Any]
"""All that a template is given."""

COMPARED_FIRST = 16
COMPARED_EVERY = 256
GAIN_MIN = 1.5  # times as fast as Jinja, or it is not worth its while
HOLD_S = 0.005
TEXT_CHARS_MAX = 2**20

_GENERATION = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")
_PYTHON_SPACES = ("\x1c", "\x1d", "\x1e", "\x1f")
_ROUNDS = 3


class MinijinjaTwin:
    """The twin of one template. Safe to use from several threads."""

    def __init__(
        self,
        source: str,
        jinja: Callable[[Rendering], str],
        *,
        to_json: Callable[..., str],
        raise_exception: Callable[[str], NoReturn],
    ) -> None:
        """`jinja` renders the same template, whose filter and function the others are.

        minijinja.TemplateError: the source does not compile."""
        self._jinja = jinja
        self._environment = minijinja.Environment(
            trim_blocks=True, lstrip_blocks=True, pycompat=True, undefined_behavior="lenient", debug=False
        )
        self._environment.add_filter("tojson", to_json)
        self._environment.add_global("raise_exception", raise_exception)
        # A generation block is no more than a scope here, and minijinja knows only the latter.
        self._environment.add_template("chat", _GENERATION.sub(_as_scope, source))
        self._rendered = 0
        self._messages_most = 0
        self._is_trusted = True

    def agrees(self, probes: Iterable[Rendering]) -> bool:
        """Whether both write the same for each of these, or refuse it."""
        return all(_outcome(self._write, probe) == _outcome(self._jinja, probe) for probe in probes)

    def is_faster(self, half: Rendering, whole: Rendering) -> bool:
        """Whether it is worth its while for a long chat, of which `half` is the first half."""
        half_s, whole_s, jinja_s = _cpu_s(self._write, half), _cpu_s(self._write, whole), _cpu_s(self._jinja, whole)
        messages, is_linear = len(whole["messages"]), whole_s < 3 * half_s
        self._messages_most = int(messages * HOLD_S / whole_s) if is_linear else messages
        return GAIN_MIN * whole_s < jinja_s

    def render(self, given: Rendering) -> str | None:
        """The prompt; None where Jinja has to be asked."""
        messages = given["messages"]
        if not self._is_trusted or not self._is_short(messages) or _has_fractions(given["tools"], messages):
            return None
        begun = time.thread_time()
        prompt = _outcome(self._write, given)
        if prompt is None or any(space in prompt for space in _PYTHON_SPACES):
            return None
        self._learn(len(messages), time.thread_time() - begun)
        return prompt if self._is_right(prompt, given) else None

    def _write(self, given: Rendering) -> str:
        return self._environment.render_template("chat", **given)

    def _is_right(self, prompt: str, given: Rendering) -> bool:
        """Whether it is Jinja's, or is taken for Jinja's."""
        self._rendered += 1
        if self._rendered > COMPARED_FIRST and self._rendered % COMPARED_EVERY:
            return True
        if _outcome(self._jinja, given) == prompt:
            return True
        self._is_trusted = False
        log.warning("a chat template is rendered by Jinja from now on: minijinja wrote another prompt than Jinja")
        return False

    def _is_short(self, messages: list[dict[str, Any]]) -> bool:
        return len(messages) <= self._messages_most and _chars(messages) <= TEXT_CHARS_MAX

    def _learn(self, messages: int, took_s: float) -> None:
        """Twice as many messages, or half as many, after so many took little time, or too much."""
        if took_s > 2 * HOLD_S:
            self._messages_most = max(messages // 2, 1)
        elif took_s < HOLD_S / 2 and 2 * messages > self._messages_most:
            self._messages_most = 2 * messages


def _chars(messages: list[dict[str, Any]]) -> int:
    """How long their texts are, but for what is in calls."""
    contents = [message["content"] for message in messages]
    parts = (part.get("text", "") for content in contents if isinstance(content, list) for part in content)
    return sum(len(content) for content in contents if isinstance(content, str)) + sum(map(len, parts))


def _has_fractions(tools: Any, messages: list[dict[str, Any]]) -> bool:
    calls = (message["tool_calls"] for message in messages if "tool_calls" in message)
    return _has_fraction(tools) or any(map(_has_fraction, calls))


def _has_fraction(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_fraction, value.values()))
    return any(map(_has_fraction, value)) if isinstance(value, list) else isinstance(value, float)


def _as_scope(tag: re.Match[str]) -> str:
    before, end, behind = tag.groups()
    return f"{{%{before} {'endwith' if end else 'with'} {behind}%}}"


def _outcome(render: Callable[[Rendering], str], given: Rendering) -> str | None:
    """The rendered prompt, or None if the template refuses the conversation."""
    try:
        return render(given)
    except Exception:  # noqa: BLE001 - templates raise what they like
        return None


def _cpu_s(render: Callable[[Rendering], str], given: Rendering) -> float:
    """The least processor time that rendering takes in some rounds."""
    taken: list[float] = []
    for _ in range(_ROUNDS):
        begun = time.thread_time()
        _outcome(render, given)
        taken.append(time.thread_time() - begun)
    return min(taken)
