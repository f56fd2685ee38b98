from __future__ import annotations

import pytest

from antiphon_core import response
from antiphon_core.errors import EngineFault, EngineUnavailable, InvalidRequest, ModelNotFound
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Receive, Turn
from antiphon_edge.compaction import compaction
from tests.support.translators import ScriptedTranslator

REQUEST = {
    "model": "m",
    "instructions": "be brief",
    "tools": [{"type": "function", "name": "f"}],
    "tool_choice": "required",
    "text": {"format": {"type": "json_object"}},
    "reasoning": {"effort": "low"},
    "stop": "x",
    "max_output_tokens": 3,
    "context_management": [{"type": "compaction"}],
}
TURN = Turn("resp_1", 7, dumps(REQUEST), b'[{"id":"h"}]', b'[{"id":"i"}]')


async def test_the_model_sums_up_all_that_the_turn_would_show() -> None:
    translator = ScriptedTranslator()
    summary = await compaction.summarise(translator, TURN)
    assert summary.item["summary"] == [{"type": "summary_text", "text": "Hello there"}]
    assert (summary.item["type"], summary.usage["output_tokens"]) == ("compaction", 2)
    (asked,) = translator.turns
    assert [item["id"] for item in loads(asked.history)] == ["h", "i"]
    assert loads(asked.input)[0]["content"][0]["text"] == compaction.INSTRUCTION


def test_the_summary_is_asked_for_with_the_same_prompt_and_in_no_form() -> None:
    asked = loads(compaction.summary_turn(TURN).request)
    assert asked == {name: REQUEST[name] for name in ("model", "instructions", "tools", "reasoning")} | {
        "tool_choice": "none"
    }


async def test_a_summary_has_the_same_name_wherever_it_is_made() -> None:
    first, second = [await compaction.summarise(ScriptedTranslator(), TURN) for _ in range(2)]
    assert first.item["id"] == second.item["id"]
    assert first.item["id"].startswith("cmp_")


async def test_what_is_wrong_is_raised() -> None:
    with pytest.raises(ModelNotFound):
        await compaction.summarise(ScriptedTranslator(), Turn("resp_1", 0, b'{"model":"other"}'))
    with pytest.raises(EngineUnavailable):
        await compaction.summarise(ScriptedTranslator(fault=EngineUnavailable("gone")), TURN)


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (Status.INCOMPLETE, "half of", EngineFault),
        (Status.COMPLETED, "  ", EngineFault),
        (Status.FAILED, "", EngineUnavailable),
    ],
)
async def test_half_a_summary_is_none(status: Status, text: str, error: type[Exception]) -> None:
    output = [
        {"type": "reasoning", "content": []},
        {"type": "message", "content": [{"type": "output_text", "text": text}]},
    ]
    body = response.failed({"usage": {}, "output": []}, EngineUnavailable("gone"))
    final = Final(status, dumps(body), dumps(output))
    translator = ScriptedTranslator()

    async def generate(_turn: Turn, receive: Receive, **_options: object) -> None:
        receive(Batch(0, 1, b"", final))

    translator.generate = generate  # type: ignore[assignment]
    with pytest.raises(error):
        await compaction.summarise(translator, TURN)


USAGE = {"output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}}


def written(status: Status, text: str) -> Final:
    items = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    return Final(status, dumps({"usage": USAGE}), dumps(items))


async def test_a_summary_without_an_end_is_written_again_without_repetition() -> None:
    translator, asked = ScriptedTranslator(), []
    finals = [written(Status.INCOMPLETE, "and and and"), written(Status.COMPLETED, "Whole.")]

    async def generate(turn: Turn, receive: Receive, **_options: object) -> None:
        asked.append(turn)
        receive(Batch(0, 1, b"", finals[len(asked) - 1]))

    translator.generate = generate  # type: ignore[method-assign]
    summary = await compaction.summarise(translator, TURN)
    assert summary.item["summary"][0]["text"] == "Whole."
    assert summary.usage == {"output_tokens": 6, "output_tokens_details": {"reasoning_tokens": 2}}
    assert [loads(turn.request).get("frequency_penalty") for turn in asked] == [None, 0.5]
    assert len({turn.response_id for turn in asked}) == 2


async def test_an_engine_that_takes_no_penalty_has_no_second_summary() -> None:
    translator = ScriptedTranslator()

    async def generate(turn: Turn, receive: Receive, **_options: object) -> None:
        if b"frequency_penalty" in turn.request:
            raise InvalidRequest("no such control")
        receive(Batch(0, 1, b"", written(Status.INCOMPLETE, "and and")))

    translator.generate = generate  # type: ignore[method-assign]
    with pytest.raises(EngineFault):
        await compaction.summarise(translator, TURN)


async def test_a_generation_that_is_no_summary_is_counted_too() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    output = [{"type": "message", "content": [{"type": "output_text", "text": "half of"}]}]
    translator = ScriptedTranslator()

    async def generate(_turn: Turn, receive: Receive, **_options: object) -> None:
        receive(Batch(0, 1, b"", Final(Status.INCOMPLETE, dumps({"usage": usage}), dumps(output))))

    translator.generate = generate  # type: ignore[assignment]
    counted: list[object] = []
    with pytest.raises(EngineFault):
        await compaction.summarise(translator, TURN, counted.append)
    assert counted == [usage, usage]
