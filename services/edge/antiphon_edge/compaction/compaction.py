"""Makes compactions: the model of a turn summarises the conversation for its own later turns.

The prompt is that of the conversation, with the instruction as one more message. It keeps the tools, which the model
must not call (`tool_choice` is none), so that its beginning stays the same, if the template allows that, and is in the
engine's prefix cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from antiphon_core.errors import AntiphonError, EngineFault, InvalidRequest
from antiphon_core.ids import DerivedIds, new_item_id
from antiphon_core.jsons import Object, dumps, join_arrays, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Translator, Turn
from antiphon_core.request.context import COMPACTION
from antiphon_core.request.prompt_cache import EXPLICIT
from antiphon_core.response import error_of

INSTRUCTION = """\
The conversation above is about to be replaced by a summary. Write that summary now, for the assistant that will go on \
in your place and will see nothing else of what you said, of the tools that were called and of what they returned; \
it will see what the user wrote.

Say what the user wants and what was agreed; what was done, found and decided, with every name, number, path, \
identifier and quotation that may be needed again; what failed; and what is still to be done, beginning with the next \
step. Do not answer the user, do not call tools, and write nothing but the summary."""

SUMMARY_TOKENS_MAX = 8_192
SUMMARY_SHARE = 8
"""A summary has at most the model's context divided by this: a model that generates to the end of its context would
take minutes, and leave no room for an answer."""
CUT_NOTE = "\n[The summary was cut off here.]"

_PARAMETERS = (
    "model",
    "instructions",
    "tools",
    "reasoning",
    "truncation",
    "prompt_cache_key",
)
_ENDING: Object = {"prompt_cache_options": {"mode": EXPLICIT}}
"""No later prompt continues that of a summary: it may leave the KV cache first."""
_ATTEMPTS: tuple[Object, ...] = ({}, {"frequency_penalty": 0.5})
"""The sampling parameters of each attempt. A model with 135 million parameters repeats itself to its limit in nearly
every second summary, and in one of four with this penalty."""


@dataclass(frozen=True, slots=True)
class Summary:
    """`item` is the compaction, not sealed yet; `usage` counts the tokens of all attempts."""

    item: Object
    usage: Object


async def summarise(translator: Translator, turn: Turn) -> Summary:
    """Has the model summarise all items of a turn.

    A summary that is incomplete is generated once more, with a penalty against repetition, to which small models tend.
    If the second one is incomplete, too, it is used if it filled the limit of a summary, and rejected if it was cut off
    before that.

    Raises:
        EngineFault: the model did not write a usable summary.
        AntiphonError: the turn is wrong, or the translator failed. The `usage` of each error counts the tokens that
            were generated before it.
    """
    spent: Object = {}
    try:
        limit = await _tokens_max(translator, turn)
        final = await _write_summary(translator, summary_turn(turn, limit), spent)
        if final.status is Status.INCOMPLETE:
            final = await _rewritten(translator, turn, limit, spent) or final
        return _summary(turn, final, limit, spent)
    except AntiphonError as error:
        error.usage = spent or None
        raise


async def _tokens_max(translator: Translator, turn: Turn) -> int | None:
    """The limit of a summary; None if the model's context is not known: then its server rejects what does not fit."""
    name = loads(turn.request)["model"]
    lengths = [model.context_length for model in await translator.models() if model.id == name]
    return min(SUMMARY_TOKENS_MAX, lengths[0] // SUMMARY_SHARE) if lengths and lengths[0] else None


async def _rewritten(translator: Translator, turn: Turn, limit: int | None, spent: Object) -> Final | None:
    """The second attempt; None where the engine takes no penalty."""
    try:
        return await _write_summary(translator, summary_turn(turn, limit, attempt=2), spent)
    except InvalidRequest:
        return None


async def _write_summary(translator: Translator, turn: Turn, spent: Object) -> Final:
    """Makes one attempt, and adds its usage to `spent`."""
    finals: list[Final] = []

    def receive(batch: Batch) -> None:
        if batch.final is not None:
            finals.append(batch.final)

    await translator.generate(turn, receive)
    (final,) = finals
    spent |= sum_of(loads(final.body).get("usage") or {}, spent)
    return final


def sum_of(one: Object, other: Object) -> Object:
    """Adds two usages."""
    return {
        name: sum_of(value, other.get(name, {})) if isinstance(value, dict) else value + other.get(name, 0)
        for name, value in one.items()
    }


def summary_turn(turn: Turn, limit: int | None, *, attempt: int = 1) -> Turn:
    """The turn that generates the summary, in `limit` tokens at most."""
    asked: Object = loads(turn.request)
    parameters = {name: asked[name] for name in _PARAMETERS if name in asked} | _ENDING
    bounds = {} if limit is None else {"max_output_tokens": limit}
    instruction = {
        "id": "msg_compaction",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": INSTRUCTION}],
    }
    return replace(
        turn,
        response_id=f"{turn.response_id}_compaction{attempt if attempt > 1 else ''}",
        request=dumps(parameters | _ATTEMPTS[attempt - 1] | bounds | {"tool_choice": "none"}),
        history=join_arrays([turn.history, turn.input]),
        input=dumps([instruction]),
    )


def _summary(turn: Turn, final: Final, limit: int | None, spent: Object) -> Summary:
    body: Object = loads(final.body)
    if final.status is Status.FAILED:
        raise error_of(body)
    text = _text(loads(final.output_items))
    if final.status is Status.INCOMPLETE:
        text = f"{text}{CUT_NOTE}" if text and _fills(body, limit) else ""
    if not text:
        raise EngineFault("The model did not write a whole summary of the conversation. Compact it earlier.")
    item = {
        "id": new_item_id(DerivedIds(f"{turn.response_id}/compaction"), "cmp", relative=turn.response_id),
        "type": COMPACTION,
        "encrypted_content": "",
        "summary": [{"type": "summary_text", "text": text}],
    }
    return Summary(item, spent)


def _fills(body: Object, limit: int | None) -> bool:
    """Whether a summary has as many tokens as it may have, and was not cut off by the end of the context."""
    return limit is not None and (body.get("usage") or {}).get("output_tokens", 0) >= limit


def _text(items: list[Object]) -> str:
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return "".join(part.get("text", "") for part in parts).strip()
