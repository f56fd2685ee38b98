"""Making a compaction: the model that would go on writes down, for itself, what it has to know to go on.

It reads the conversation as it stands, and one message more. Its tools are sent along, so that the prompt begins as it
did before where the template allows that, and an engine finds it in its cache; it cannot call any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from antiphon_core.errors import EngineFault, InvalidRequest
from antiphon_core.ids import DerivedIds, new_item_id
from antiphon_core.jsons import Object, dumps, join_arrays, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Translator, Turn
from antiphon_core.request.context import COMPACTION
from antiphon_core.response import error_of

INSTRUCTION = """\
The conversation above is about to be replaced by a summary. Write that summary now, for the assistant that will go on \
in your place and will see nothing else of what you said, of the tools that were called and of what they returned; \
it will see what the user wrote.

Say what the user wants and what was agreed; what was done, found and decided, with every name, number, path, \
identifier and quotation that may be needed again; what failed; and what is still to be done, beginning with the next \
step. Do not answer the user, do not call tools, and write nothing but the summary."""

_PARAMETERS = ("model", "instructions", "tools", "reasoning", "prompt_cache_key", "prompt_cache_retention")
_AGAINST_REPETITION = {"frequency_penalty": 0.5}
"""A model with 135 million parameters repeats itself to its limit in nearly every summary, and in one of four with
this."""


@dataclass(frozen=True, slots=True)
class Summary:
    """`item` is the compaction, not sealed yet; `usage` is what it cost."""

    item: Object
    usage: Object


async def summarise(
    translator: Translator, turn: Turn, on_usage: Callable[[Object], None] = lambda _usage: None
) -> Summary:
    """A compaction of all that a turn would show to its model. A summary that does not come to its end is written once
    more, so that a small model cannot repeat itself. `on_usage` gets the usage of each generation, also of those whose
    text is no summary.

    Raises what is wrong with the turn, and what keeps the model from writing a whole summary: EngineFault, say."""
    final = await _written(translator, summary_turn(turn), on_usage)
    if final.status is not Status.INCOMPLETE:
        return _summary(turn, final)
    spent = loads(final.body)["usage"]
    try:
        second = await _written(translator, summary_turn(turn, attempt=2, **_AGAINST_REPETITION), on_usage)
    except InvalidRequest as error:  # the engine takes no such penalty
        raise _unfinished() from error
    summary = _summary(turn, second)
    return replace(summary, usage=sum_of(summary.usage, spent))


async def _written(translator: Translator, turn: Turn, on_usage: Callable[[Object], None]) -> Final:
    finals: list[Final] = []

    def receive(batch: Batch) -> None:
        if batch.final is not None:
            finals.append(batch.final)

    await translator.generate(turn, receive)
    (final,) = finals
    usage = loads(final.body).get("usage")
    if usage:
        on_usage(usage)
    return final


def sum_of(one: Object, other: Object) -> Object:
    """Two usages in one."""
    return {
        name: sum_of(value, other.get(name, {})) if isinstance(value, dict) else value + other.get(name, 0)
        for name, value in one.items()
    }


def summary_turn(turn: Turn, *, attempt: int = 1, **sampling: float) -> Turn:
    """The turn in which the summary is written."""
    asked: Object = loads(turn.request)
    parameters = {name: asked[name] for name in _PARAMETERS if name in asked}
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
        request=dumps(parameters | sampling | {"tool_choice": "none"}),
        history=join_arrays([turn.history, turn.input]),
        input=dumps([instruction]),
    )


def _summary(turn: Turn, final: Final) -> Summary:
    body: Object = loads(final.body)
    if final.status is Status.FAILED:
        raise error_of(body)
    text = _text(loads(final.output_items))
    if final.status is not Status.COMPLETED or not text:
        raise _unfinished()
    item = {
        "id": new_item_id(DerivedIds(f"{turn.response_id}/compaction"), "cmp"),
        "type": COMPACTION,
        "encrypted_content": "",
        "summary": [{"type": "summary_text", "text": text}],
    }
    return Summary(item, body["usage"])


def _unfinished() -> EngineFault:
    return EngineFault("The model did not write a whole summary of the conversation. Compact it earlier.")


def _text(items: list[Object]) -> str:
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return "".join(part.get("text", "") for part in parts).strip()
