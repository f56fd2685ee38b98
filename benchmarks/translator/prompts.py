"""Measures a prompt: rendering, the search for control tokens, encoding. The baseline is the bare encoding of its text.
Also measures a chat that grows turn by turn, with and without the cache of earlier prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from antiphon_core.ports.translator import Turn
from antiphon_core.request.body import Parameters
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.prompt.prompt_cache import CachingEncoder
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.turn.turn_prompt import TurnPrompt
from benchmarks.measuring import print_table, work
from benchmarks.translator.steps import TEXT
from tests.support.served_models import FILES, message, model, tokenizer, turn

PAIRS = (1, 10, 100)  # pairs of messages before the question
CHARS = 300  # of each message
TURNS = 50
CACHE_BYTES = 64 * 2**20
CONTEXT_TOKENS = 10_000_000


def print_prompts() -> None:
    _print_lengths()
    _print_growth()


def _print_lengths() -> None:
    """Prints the cost of prompts that are not cached."""
    served, rows = _served(cache_bytes=0), []
    for pairs in PAIRS:
        given = _chat(pairs)
        ids = _prompt(served, given)
        done = work(partial(_prompt, served, given), partial(tokenizer().encode, tokenizer().decode(ids)))
        rows.append([f"{2 * pairs + 1} messages", f"{len(ids):,}", f"{done.cpu_s * 1e3:.2f}", f"{done.ratio:.2f}"])
    print_table("Prompts of which nothing was kept", ["", "ids", "ms", "x library"], rows)


def _print_growth() -> None:
    """Prints the cost of all turns of a chat in order, without and with the cache."""
    chats = [_chat(pairs) for pairs in range(TURNS)]
    prompts = [_prompt(_served(cache_bytes=0), chat) for chat in chats]
    texts = [tokenizer().decode(ids) for ids in prompts]

    def encode_anew() -> None:
        for text in texts:
            tokenizer().encode(text)

    def encode_what_is_new() -> None:
        encoder = CachingEncoder(tokenizer(), ControlTokens(tokenizer().added), most_bytes=CACHE_BYTES)
        for text in texts:
            encoder.encode([text])

    rows = [
        _growth("encoding alone", encode_what_is_new, encode_anew),
        _growth("whole prompts", partial(_play, chats, CACHE_BYTES), partial(_play, chats, 0)),
    ]
    title = f"A chat of {TURNS} turns, {len(prompts[-1]):,} ids at its end: ms a turn, on average"
    print_table(title, ["", "everything anew", "what is new", "x anew"], rows)


def _growth(name: str, kept: Callable[[], None], anew: Callable[[], None]) -> Sequence[str]:
    done, baseline = work(kept, anew), work(anew, anew)
    each_ms = (cpu_s / TURNS * 1e3 for cpu_s in (baseline.cpu_s, done.cpu_s))
    return [name, *(f"{ms:.2f}" for ms in each_ms), f"{done.ratio:.3f}"]


def _play(chats: Sequence[Turn], cache_bytes: int) -> None:
    served = _served(cache_bytes=cache_bytes)
    for chat in chats:
        _prompt(served, chat)


def _prompt(served: ServedModel, given: Turn) -> Sequence[int]:
    return TurnPrompt.of(served, given, Parameters.parse(given.request)).ids


def _served(*, cache_bytes: int) -> ServedModel:
    template = JinjaTemplate((FILES / "chat_template.jinja").read_text("utf-8"), special_tokens={})
    return model(prompt=PromptEncoder(template, tokenizer(), cache_bytes=cache_bytes), context_length=CONTEXT_TOKENS)


def _chat(pairs: int) -> Turn:
    """Returns a chat of so many different pairs of messages and a question."""
    texts = [f"{number}. {TEXT[:CHARS]}" for number in range(2 * pairs)]
    history = [message(("user", "assistant")[number % 2], text) for number, text in enumerate(texts)]
    return turn("x", history=history)
