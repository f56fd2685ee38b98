"""The prompt of a response that has ended, made again of its items.

The lineage of the response proves it: it has the length and the digest of the text that the engine was sent. A prompt
that does not agree with its lineage is not exact, and no cause in its text is named.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.translator import NO_ITEMS, NO_USAGE, EndedTurn, Turn
from antiphon_core.request.body import Parameters
from antiphon_translator.conversation import Conversation
from antiphon_translator.generation import Level
from antiphon_translator.lineage import turn_lineage
from antiphon_translator.lineage.prompt_digest import prompt_digests
from antiphon_translator.lineage.turn_lineage import ID, TurnLineage
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.turn.turn_prompt import TurnPrompt

ROUNDS_TRIED = 8
"""How many beginnings of an output are tried for the one that its last round was prompted with."""


@dataclass(frozen=True, slots=True)
class EndedPrompt:
    """One prompt, and what the model wrote behind it. `turn` has the output of earlier rounds."""

    turn: Turn
    parameters: Parameters
    prompt: TurnPrompt
    output_items: bytes
    lineage: TurnLineage | None
    text: str
    is_exact: bool
    """Whether the lineage proves the text."""
    whole_text: str
    """The text with what was written behind it."""
    ids: array[int]
    has_ids: bool
    """Whether the lineage has as many ids."""
    whole_ids: array[int]
    """The ids of the prompt with those that were written behind it."""

    @property
    def conversation(self) -> Conversation:
        return self.prompt.conversation

    @property
    def image_contents(self) -> Sequence[bytes]:
        return [image.content for image in self.conversation.images]


def first_prompt(model: ServedModel, ended: EndedTurn, media: TurnMedia, level: Level) -> EndedPrompt:
    """The prompt of the first round of a response. InvalidRequest: it cannot be made any more."""
    rounds = turn_lineage.decode_rounds(ended.lineage)
    return _prompt_of(model, _without_rounds(ended.turn), ended, rounds[0] if rounds else None, media, level)


def last_prompt(model: ServedModel, ended: EndedTurn, media: TurnMedia, level: Level) -> EndedPrompt:
    """The prompt of the last round of a response. InvalidRequest: it cannot be made any more."""
    rounds = turn_lineage.decode_rounds(ended.lineage)
    turn, lineage = _without_rounds(ended.turn), rounds[-1] if rounds else None
    made = None
    for output in _beginnings(ended.output_items) if len(rounds) > 1 else (NO_ITEMS,):
        try:
            made = _prompt_of(model, replace(turn, output=output), ended, lineage, media.anew(), level)
        except InvalidRequest:  # the beginning ends within a round
            continue
        if made.is_exact:
            return made
    return made or _prompt_of(model, turn, ended, lineage, media.anew(), level)


def _beginnings(output_items: bytes) -> Iterator[bytes]:
    """The beginnings of an output that may be that of all rounds but the last one, the longest first."""
    items = loads(output_items)
    for length in range(len(items) - 1, max(0, len(items) - 1 - ROUNDS_TRIED), -1):
        yield dumps(items[:length])


def _without_rounds(turn: Turn) -> Turn:
    return replace(turn, output=NO_ITEMS, used=NO_USAGE, round_lineage=b"", compared=None)


def _prompt_of(
    model: ServedModel, turn: Turn, ended: EndedTurn, lineage: TurnLineage | None, media: TurnMedia, level: Level
) -> EndedPrompt:
    parameters = Parameters.parse(turn.request)
    prompt = TurnPrompt.of(model, turn, parameters, media, level=level)
    pieces = prompt.encoded.pieces if prompt.encoded is not None else ()
    text, ids = "".join(pieces), array(ID, prompt.ids)
    if lineage is not None and len(ids) != lineage.prompt_tokens:
        alone = array(ID, chain.from_iterable(map(model.tokenizer.encode, pieces)))
        ids = alone if len(alone) == lineage.prompt_tokens else ids  # the turn had no ids of earlier ones
    written = lineage.written_ids if lineage is not None else array(ID)
    spelt = b"".join(map(model.tokenizer.bytes_of, written)).decode("utf-8", "ignore")
    return EndedPrompt(
        turn,
        parameters,
        prompt,
        ended.output_items,
        lineage,
        text,
        is_exact=lineage is not None and _is_proved(lineage, model, pieces),
        whole_text=text + spelt,
        ids=ids,
        has_ids=lineage is not None and len(ids) == lineage.prompt_tokens,
        whole_ids=ids + written,
    )


def _is_proved(lineage: TurnLineage, model: ServedModel, pieces: Sequence[str]) -> bool:
    chars = sum(map(len, pieces))
    return (
        lineage.fingerprint == model.prompt.fingerprint
        and 0 < chars == lineage.prompt_chars
        and prompt_digests(pieces, [chars]).get(chars) == lineage.prompt_digest
    )
