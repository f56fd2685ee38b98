"""Measures a turn at the end of a long chat up to the request to the engine, for an engine that takes a conversation
and for one that takes ids. The baselines are one plain rendering of the chat and one encoding of its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import jinja2

from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object
from antiphon_core.limits import PROMPT_CACHE_BYTES_DEFAULT
from antiphon_core.ports.translator import Turn
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import Level
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.templates.minijinja_twin import COMPARED_FIRST
from benchmarks.measuring import cpu_s, print_table
from tests.support.pipelines import pipeline_of
from tests.support.served_models import FILES, message, model, tokenizer, turn

DEPTHS = (1, 10, 100, 300, 1_000)  # turns
SAID = "The quick brown fox jumps over the lazy dog, 3.14 times; naive people of the town. "
CODE = "Use `if (a < b) { return <div>{x}</div> }` here, please. "
ROUNDS = 5
CONTEXT_TOKENS = 10_000_000
TEMPLATES = {
    "SmolLM2": FILES / "chat_template.jinja",
    "Qwen3": FILES.parents[1] / "golden/templates/Qwen-Qwen3-0.6B.jinja",
}


def print_depths() -> None:
    for name, path in TEMPLATES.items():
        source = path.read_text("utf-8")
        _print(f"{name}, prose", source, SAID)
        _print(f"{name}, with characters that begin control tokens", source, CODE)


def _print(name: str, source: str, said: str) -> None:
    """Prints a row for each depth. The turn before each depth is run first, so its prompt is cached."""
    plain = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    template = JinjaTemplate(source, special_tokens={})
    served, cold = (
        model(context_length=CONTEXT_TOKENS, prompt=PromptEncoder(template, tokenizer(), cache_bytes=most))
        for most in (PROMPT_CACHE_BYTES_DEFAULT, 0)
    )
    for _ in range(COMPARED_FIRST):  # afterwards not every prompt is rendered twice
        _begin(served, _chat(1, said), Level.TOKENS)
    headings = ["turns", "chat", "ids", "ids, nothing kept", "one rendering", "one encoding", "ids x rendering"]
    print_table(f"{name}: ms of a turn", headings, [_row(served, cold, plain, depth, said) for depth in DEPTHS])


def _row(served: ServedModel, cold: ServedModel, plain: jinja2.Template, depth: int, said: str) -> Sequence[str]:
    given, messages = _chat(depth, said), _messages(depth, said)
    render = partial(plain.render, messages=messages, add_generation_prompt=True)
    _begin(served, _chat(max(depth - 1, 1), said), Level.TOKENS)
    works: Sequence[Callable[[], object]] = [
        partial(_begin, served, given, Level.CHAT),
        partial(_begin, served, given, Level.TOKENS),
        partial(_begin, cold, given, Level.TOKENS),
        render,
        partial(tokenizer().encode, render()),
    ]
    each_ms = [1e3 * _best(work) for work in works]
    return [f"{depth:,}", *(f"{ms:.2f}" for ms in each_ms), f"{each_ms[1] / each_ms[3]:.2f}"]


def _best(work: Callable[[], object]) -> float:
    return min(cpu_s(work) for _ in range(ROUNDS))


def _begin(served: ServedModel, given: Turn, level: Level) -> None:
    pipeline_of(served, given, controls=ALL_CONTROLS, ids=RandomIds(), level=level).start()


def _chat(depth: int, said: str) -> Turn:
    return turn("And now?", history=_history(depth, said))


def _history(depth: int, said: str) -> list[Object]:
    return [message(role, f"{number}. {said}") for number in range(depth - 1) for role in ("user", "assistant")]


def _messages(depth: int, said: str) -> list[Object]:
    """Returns the messages of the chat, in the form that templates take."""
    before = [{"role": item["role"], "content": item["content"][0]["text"]} for item in _history(depth, said)]
    return [*before, {"role": "user", "content": "And now?"}]
