"""How long the KV cache of an engine keeps the parts of a prompt: rules over one turn, no I/O.

| turn | beginning that others share | rest of the prompt | output |
|---|---|---|---|
| one that nothing continues, or with `mode` "explicit" and no breakpoint | normal | low | low |
| with `ttl` (up to the last breakpoint, if `mode` is "explicit") | retained | retained | normal |
| with breakpoints | retained up to the last one | normal; low with `mode` "explicit" | normal |
| with a system message that the profile pins | pinned | as above | as above |
| every other | normal | normal | normal |

A cache evicts all blocks of a lower priority first, and leaves only. So a one-shot request takes no room from
conversations, and a priority never rises along a prompt. Promoting conversations that run brings nothing: they are used
all the time (docs/explain/cache.md). What an earlier turn of the line has retained stays so for its time. Nothing can
demote blocks later: a branch that is deleted ages out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Protocol

from antiphon_core import offload
from antiphon_core.ids import tree_tag
from antiphon_core.jsons import Object, parse_array
from antiphon_core.ports.translator import NO_ITEMS, Turn
from antiphon_core.request import prompt_cache
from antiphon_core.request.body import Parameters
from antiphon_core.request.prompt_cache import EXPLICIT, IMPLICIT, LIFETIME_DEFAULT, LIFETIMES_S
from antiphon_translator.generation import RETENTION, Retention, RetentionRange
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.turn.turn_prompt import TurnPrompt

NORMAL, LOW, RETAINED, PINNED = 35, 10, 60, 80
"""Priorities of a prompt's blocks, of 0 to 100. NORMAL is TensorRT-LLM's default. LOW is below the priority from which
it moves evicted blocks to the host's memory (30 in its code, 35 in its documentation)."""
LOW_OUTPUT = 5
BREAKPOINTS_MAX = 4
"""The latest breakpoints of a request that count, as at OpenAI."""
MISSES_MAX = 16
"""Parts that are not found in the prompt before the search for breakpoints ends: each takes a search of all of it."""
BREAKPOINT = b"prompt_cache_breakpoint"
_SEALED_REASONING = "reasoning.encrypted_content"


class Share(Protocol):
    """A tenant's share of the cache. Lines of turns have names, and prompts that repeat the one before."""

    def take(self, line: str, ids: Sequence[int], seconds: int) -> bool:
        """Takes the beginning of a prompt from the share, for so many seconds, or returns False."""

    def beginning(self, line: str, ids: Sequence[int]) -> tuple[int, int]:
        """How many tokens of a prompt's beginning the line has retained, and for how many seconds more."""


class Hint(Enum):
    """A wish for a prompt's blocks in the KV cache of its engine. The values are those of the label of a metric."""

    LOW = "low"
    RETAIN = "retain"
    PIN = "pin"


class Outcome(Enum):
    """The fate of a hint. The values are those of the label of a metric."""

    SENT = "sent"
    UNSUPPORTED = "unsupported"
    """The engine takes no priorities of blocks."""
    OVER_SHARE = "over_share"
    """The tenant has its share of the cache, or the profile gives tenants none."""


@dataclass(frozen=True, slots=True)
class CacheChoice:
    """The hints for the engine about the blocks of a prompt, and what the response says of them."""

    retention: Retention | None = None
    members: Object | None = None
    """The members of the response that differ from those of a turn without hints."""
    outcomes: Sequence[tuple[Hint, Outcome]] = ()


NO_CHOICE = CacheChoice()


@dataclass(frozen=True, slots=True)
class Layer:
    """A priority of the prompt up to the position `end`; None is the end of the prompt."""

    end: int | None
    priority: int
    duration_s: int | None = None


def choose(
    turn: Turn,
    parameters: Parameters,
    prompt: TurnPrompt,
    model: ServedModel,
    controls: frozenset[str],
    share: Share,
) -> CacheChoice:
    """Chooses how long the parts of a prompt are kept. `controls` are those of the engine."""
    parts = _input_parts(turn)
    if RETENTION not in controls:
        hints = _hints(turn, parameters, prompt, model, asks=_asks_to_retain(parameters, parts))
        return CacheChoice(outcomes=[(hint, Outcome.UNSUPPORTED) for hint in hints]) if hints else NO_CHOICE
    layers, outcomes = list[Layer](), list[tuple[Hint, Outcome]]()
    asked = _retained_layers(turn, parameters, prompt, model, parts)
    hints = _hints(turn, parameters, prompt, model, asks=bool(asked))
    line = _line(turn, parameters, model)
    kept = share.beginning(line, prompt.ids) if hints else (0, 0)
    wished, seconds = _wish(prompt, asked)
    is_retained = bool(wished) and share.take(line, wished, seconds)
    if asked:
        outcomes.append((Hint.RETAIN, Outcome.SENT if is_retained else Outcome.OVER_SHARE))
        layers += asked if is_retained else [Layer(layer.end, NORMAL) for layer in asked]
    if Hint.PIN in hints and (pinned := _pinned_tokens(turn, prompt, model)):
        outcomes.append((Hint.PIN, Outcome.SENT))
        layers.append(Layer(pinned, PINNED))
    if is_low := Hint.LOW in hints:
        outcomes.append((Hint.LOW, Outcome.SENT))
        root = prompt.root()
        layers.append(Layer(root.tokens if root is not None else 0, NORMAL))
    if not outcomes:
        return NO_CHOICE
    if kept[0] > (len(wished) if is_retained else 0):
        layers.append(Layer(kept[0], RETAINED, kept[1]))
    retention = _retention(layers, LOW if is_low else NORMAL, LOW_OUTPUT if is_low and not asked else NORMAL)
    return CacheChoice(retention, _members_in_effect(parameters, is_retained=is_retained), outcomes)


def _hints(turn: Turn, parameters: Parameters, prompt: TurnPrompt, model: ServedModel, *, asks: bool) -> Sequence[Hint]:
    """The hints that a turn asks for. `asks`: its request asks to retain something."""
    is_once = not asks and model.demotes_one_shots and is_one_shot(turn, parameters, prompt)
    wishes = {
        Hint.RETAIN: asks,
        Hint.PIN: bool(_pinned_text(prompt, model)),
        Hint.LOW: _is_explicit(parameters) or is_once,
    }
    return [hint for hint, is_wished in wishes.items() if is_wished]


def _retention(layers: Sequence[Layer], rest: int, output: int) -> Retention | None:
    """None: all is as an engine does it anyway."""
    ranges = ranges_of([*layers, Layer(None, rest)])
    return Retention(ranges, output) if {output, *(each.priority for each in ranges)} != {NORMAL} else None


def _line(turn: Turn, parameters: Parameters, model: ServedModel) -> str:
    """The name of a turn's line of turns: prompts with different salts have no blocks in common."""
    name = parameters.prompt_cache_key or tree_tag(turn.response_id) or turn.response_id
    return f"{model.cache_salt_of(turn) or ''} {name}"


def _wish(prompt: TurnPrompt, asked: Sequence[Layer]) -> tuple[Sequence[int], int]:
    """The beginning and the seconds that a request asks to retain."""
    if not asked:
        return (), 0
    return prompt.ids[: asked[-1].end], max(layer.duration_s or 0 for layer in asked)


def is_one_shot(turn: Turn, parameters: Parameters, prompt: TurnPrompt) -> bool:
    """Whether nothing continues the turn, as far as its request shows: it is not stored or runs in the background,
    continues nothing, and asks for nothing that a conversation needs."""
    is_alone = parameters.store is False or parameters.background is True
    is_named = parameters.prompt_cache_key is not None or parameters.conversation is not None
    if not is_alone or is_named or parameters.tools or turn.history != NO_ITEMS or turn.output != NO_ITEMS:
        return False
    if _SEALED_REASONING in (parameters.include or ()):
        return False
    return all(message.role not in ("assistant", "tool") for message in prompt.conversation.messages)


def ranges_of(layers: Sequence[Layer]) -> tuple[RetentionRange, ...]:
    """The ranges of a prompt, without gaps, of layers that each begin with the prompt and of which one has no end. The
    highest priority counts, and of two layers with the same one that which lasts longer."""
    ends = sorted({layer.end for layer in layers if layer.end})
    made = list[RetentionRange]()
    for start, end in pairwise([0, *ends, None]):
        covering = [layer for layer in layers if layer.end is None or (end is not None and layer.end >= end)]
        best = max(covering, key=_rank)
        duration_ms = None if best.duration_s is None else 1_000 * best.duration_s
        is_one = bool(made) and (made[-1].priority, made[-1].duration_ms) == (best.priority, duration_ms)
        begin = made.pop().start if is_one else start or 0
        made.append(RetentionRange(begin, end, best.priority, duration_ms))
    return tuple(made)


def _rank(layer: Layer) -> tuple[int, bool, int]:
    return layer.priority, layer.duration_s is None, layer.duration_s or 0


def _is_explicit(parameters: Parameters) -> bool:
    options = parameters.prompt_cache_options
    return options is not None and options.mode == EXPLICIT


def _lifetime_s(parameters: Parameters) -> int | None:
    """The lifetime that a request asks for, for its whole prompt."""
    options = parameters.prompt_cache_options
    asked = [
        LIFETIMES_S[options.ttl] if options is not None and options.ttl is not None else 0,
        LIFETIMES_S["24h"] if parameters.prompt_cache_retention == "24h" else 0,
    ]
    return max(asked) or None


def _members_in_effect(parameters: Parameters, *, is_retained: bool) -> Object:
    """The members of the response that say how its prompt is cached."""
    given, applied = parameters.prompt_cache_options, dict[str, Any]()
    if given is not None:
        mode = given.mode or IMPLICIT
        applied["prompt_cache_options"] = prompt_cache.options_in_effect(
            mode, given.ttl if is_retained else None, given.comparison_response_id
        )
    if is_retained and parameters.prompt_cache_retention == "24h":
        applied["prompt_cache_retention"] = "24h"
    return applied


def _asks_to_retain(parameters: Parameters, parts: Sequence[Object]) -> bool:
    is_whole = _lifetime_s(parameters) is not None and not _is_explicit(parameters)
    return is_whole or any(_is_marked(part) for part in parts)


def _retained_layers(
    turn: Turn, parameters: Parameters, prompt: TurnPrompt, model: ServedModel, parts: Sequence[Object]
) -> list[Layer]:
    """The layers that a request asks to retain, the longest last. `parts` are those of `_input_parts`."""
    lifetime_s = _lifetime_s(parameters)
    layers = [
        Layer(_tokens_before(chars, turn, prompt, model), RETAINED, duration_s)
        for chars, duration_s in breakpoints(parts, _pieces(prompt), lifetime_s or LIFETIMES_S[LIFETIME_DEFAULT])
    ]
    if lifetime_s is not None and not _is_explicit(parameters):
        layers.append(Layer(None, RETAINED, lifetime_s))
    return layers


def _pieces(prompt: TurnPrompt) -> Sequence[str]:
    return prompt.encoded.pieces if prompt.encoded is not None else ()


def breakpoints(parts: Sequence[Object], pieces: Sequence[str], default_s: int) -> Sequence[tuple[int, int]]:
    """The latest breakpoints among the input's parts, by their places in the prompt's text, which `pieces` make up:
    places and seconds. A part that the template does not repeat has none.

    The text is searched from its end, where the input is: by `find` in the text turned round, because `rfind` takes the
    product of both lengths if a client chooses them well."""
    first = next((place for place, part in enumerate(parts) if _is_marked(part)), None)
    if first is None:
        return ()
    text, found = "".join(pieces)[::-1], list[tuple[int, int]]()
    at, misses = 0, 0
    for part in reversed(parts[first:]):
        offload.require_wanted()
        written = part["text"].strip()
        place = text.find(written[::-1], at)
        if place < 0:
            misses += 1
            if misses > MISSES_MAX:
                break
            continue
        at = place + len(written)
        if _is_marked(part):
            ttl = part["prompt_cache_breakpoint"].get("ttl")
            found.append((len(text) - place, LIFETIMES_S.get(ttl or "", default_s)))
            if len(found) == BREAKPOINTS_MAX:
                break
    return found[::-1]


def _is_marked(part: Object) -> bool:
    return isinstance(part.get("prompt_cache_breakpoint"), dict)


def _input_parts(turn: Turn) -> Sequence[Object]:
    """The parts with text of the input, if one of them may have a breakpoint."""
    if BREAKPOINT not in turn.input:
        return ()
    return list(_parts(parse_array(turn.input, field="input")))


def _parts(items: Sequence[Any]) -> Iterator[Object]:
    """The parts with text of the input."""
    for item in items:
        content = item.get("content") or item.get("output")
        for part in content if isinstance(content, list) else ({"text": content},):
            if isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"].strip():
                yield part


def _pinned_text(prompt: TurnPrompt, model: ServedModel) -> str:
    """The beginning of the system message that the profile pins; empty if it pins none."""
    if not model.pinned_texts or prompt.encoded is None or not prompt.conversation.messages:
        return ""
    first = prompt.conversation.messages[0]
    if first.role not in ("system", "developer"):
        return ""
    return max((each for each in model.pinned_texts if first.text.startswith(each)), key=len, default="")


def _pinned_tokens(turn: Turn, prompt: TurnPrompt, model: ServedModel) -> int:
    """The tokens up to the end of the text that the profile pins, or 0."""
    if prompt.encoded is None or not (pinned := _pinned_text(prompt, model)):
        return 0
    place = "".join(prompt.encoded.pieces).find(pinned)
    return _tokens_before(place + len(pinned), turn, prompt, model) if place >= 0 else 0


def _tokens_before(chars: int, turn: Turn, prompt: TurnPrompt, model: ServedModel) -> int:
    if prompt.encoded is None:
        return 0
    salt = model.cache_salt_of(turn) or ""
    return model.prompt.tokens_before(chars, prompt.encoded, prompt.conversation, salt=salt)
