from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from antiphon_core import response
from antiphon_core.errors import AntiphonError, EngineFault, EngineUnavailable, InvalidRequest, ModelNotFound
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Model, Receive, Turn
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


async def test_summary_covers_the_history_and_the_input_of_the_turn() -> None:
    translator = ScriptedTranslator()
    summary = await compaction.summarise(translator, TURN)
    assert summary.item["summary"] == [{"type": "summary_text", "text": "Hello there"}]
    assert (summary.item["type"], summary.usage["output_tokens"]) == ("compaction", 2)
    (asked,) = translator.turns
    assert [item["id"] for item in loads(asked.history)] == ["h", "i"]
    assert loads(asked.input)[0]["content"][0]["text"] == compaction.INSTRUCTION


def test_summary_request_keeps_the_prompt_and_drops_the_output_format() -> None:
    asked = loads(compaction.summary_turn(TURN, 20).request)
    assert asked == {name: REQUEST[name] for name in ("model", "instructions", "tools", "reasoning")} | {
        "tool_choice": "none",
        "max_output_tokens": 20,
        "prompt_cache_options": {"mode": "explicit"},
    }


async def test_summary_of_a_turn_always_has_the_same_id() -> None:
    first, second = [await compaction.summarise(ScriptedTranslator(), TURN) for _ in range(2)]
    assert first.item["id"] == second.item["id"]
    assert first.item["id"].startswith("cmp_")


async def test_unknown_model_and_engine_failure_are_raised() -> None:
    with pytest.raises(ModelNotFound):
        await compaction.summarise(ScriptedTranslator(), Turn("resp_1", 0, b'{"model":"other"}'))
    with pytest.raises(EngineUnavailable):
        await compaction.summarise(ScriptedTranslator(fault=EngineUnavailable("gone")), TURN)


USAGE = {"output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}}
LIMIT = 100 // compaction.SUMMARY_SHARE
FULL = USAGE | {"output_tokens": LIMIT}


def written(status: Status, text: str, usage: Object = USAGE) -> Final:
    items = [
        {"type": "reasoning", "content": []},
        {"type": "message", "content": [{"type": "output_text", "text": text}]},
    ]
    body = response.fail({"output": []}, EngineUnavailable("gone")) | {"usage": usage}
    return Final(status, dumps(body), dumps(items))


class Writer(ScriptedTranslator):
    """A translator whose attempts end with `ends`, one after the other; the last end is repeated."""

    def __init__(self, *ends: Final | Exception, context_length: int = 100) -> None:
        super().__init__()
        self.ends = ends
        self.context_length = context_length

    async def generate(self, turn: Turn, receive: Receive, **_options: object) -> None:
        end = self.ends[min(len(self.turns), len(self.ends) - 1)]
        self.turns.append(turn)
        if isinstance(end, Exception):
            raise end
        receive(Batch(0, 1, b"", end))

    async def models(self) -> Sequence[Model]:
        (model,) = await super().models()
        return (replace(model, context_length=self.context_length),)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (written(Status.INCOMPLETE, "half of"), EngineFault),
        (written(Status.INCOMPLETE, " ", FULL), EngineFault),
        (written(Status.COMPLETED, "  "), EngineFault),
        (written(Status.FAILED, ""), EngineUnavailable),
    ],
)
async def test_a_model_that_writes_no_summary_is_an_error(end: Final, error: type[Exception]) -> None:
    with pytest.raises(error):
        await compaction.summarise(Writer(end), TURN)


async def test_incomplete_summary_is_retried_with_a_frequency_penalty() -> None:
    translator = Writer(written(Status.INCOMPLETE, "and and and"), written(Status.COMPLETED, "Whole."))
    summary = await compaction.summarise(translator, TURN)
    assert summary.item["summary"][0]["text"] == "Whole."
    assert summary.usage == {"output_tokens": 6, "output_tokens_details": {"reasoning_tokens": 2}}
    assert [loads(turn.request).get("frequency_penalty") for turn in translator.turns] == [None, 0.5]
    assert [loads(turn.request)["max_output_tokens"] for turn in translator.turns] == [LIMIT, LIMIT]
    assert len({turn.response_id for turn in translator.turns}) == 2


async def test_second_summary_that_fills_its_limit_is_used_with_a_note() -> None:
    translator = Writer(written(Status.INCOMPLETE, "and and"), written(Status.INCOMPLETE, "They agreed.", FULL))
    summary = await compaction.summarise(translator, TURN)
    assert summary.item["summary"][0]["text"] == f"They agreed.{compaction.CUT_NOTE}"
    assert summary.usage["output_tokens"] == 3 + LIMIT


async def test_first_summary_is_used_when_the_engine_rejects_the_penalty() -> None:
    translator = Writer(written(Status.INCOMPLETE, "and and", FULL), InvalidRequest("no such control"))
    summary = await compaction.summarise(translator, TURN)
    assert summary.item["summary"][0]["text"] == f"and and{compaction.CUT_NOTE}"


@pytest.mark.parametrize(("context_length", "limit"), [(0, None), (8_192, 1_024), (131_072, 8_192)])
async def test_the_limit_of_a_summary_is_a_share_of_the_context(context_length: int, limit: int | None) -> None:
    translator = Writer(written(Status.COMPLETED, "Whole."), context_length=context_length)
    await compaction.summarise(translator, TURN)
    assert loads(translator.turns[0].request).get("max_output_tokens") == limit


async def test_error_has_the_usage_of_the_failed_attempts_before_it() -> None:
    for second in (written(Status.INCOMPLETE, "half of"), EngineUnavailable("gone")):
        with pytest.raises(AntiphonError) as raised:
            await compaction.summarise(Writer(written(Status.INCOMPLETE, "half of"), second), TURN)
        assert raised.value.usage is not None
        assert raised.value.usage["output_tokens"] == (6 if isinstance(second, Final) else 3)
    with pytest.raises(EngineUnavailable) as gone:
        await compaction.summarise(Writer(EngineUnavailable("gone")), TURN)
    assert gone.value.usage is None
