"""Each cause of a lost cache, induced: the report names it, at the token where the servers' prompts really differ."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import EndedTurn, Turn
from antiphon_translator.diagnosis.cache_report import CacheReport
from antiphon_translator.diagnosis.causes import REASONS, Cause, is_time
from antiphon_translator.diagnosis.divergence import Difference, common_length
from antiphon_translator.diagnosis.ended_prompt import last_prompt
from antiphon_translator.generation import Level
from antiphon_translator.lineage import turn_lineage
from antiphon_translator.lineage.turn_lineage import TurnLineage
from antiphon_translator.media.sight import Sight
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support.images import PNG, data_url, image_part, png, user
from tests.support.kv_fleet.kv_cache import KvCache
from tests.support.kv_fleet.prompt_replicas import PromptFleet, continuing
from tests.support.lineages import MODELS, WEATHER
from tests.support.segmentations import split_some
from tests.support.served_models import message
from tests.support.templated_system import source_of

INSTRUCTIONS = "You are a careful assistant. Answer in a few words, and say what you do not know. " * 3
ANSWER = "The capital of France is Paris, as everybody in the room should know by now. " * 3
FIRST = Turn(
    "resp_1",
    1_790_000_000,
    dumps({"model": "m", "instructions": INSTRUCTIONS, "tools": [WEATHER]}),
    input=dumps([message("user", "What is the capital of France? " * 4)]),
)
AGAIN = message("user", "And of Italy?")


async def started(kind: str = "qwen3", first: Turn = FIRST, *, answer: str = "{}") -> tuple[PromptFleet, EndedTurn]:
    """A fleet behind one turn."""
    fleet = PromptFleet(MODELS[kind].load())
    written = fleet.model.tokenizer.encode(MODELS[kind].answer.format(answer.format(ANSWER)))
    ended, _ = await fleet.run(first, split_some(fleet.model.tokenizer, written, Random(1)))
    return fleet, ended


async def behind(fleet: PromptFleet, first: EndedTurn, turn: Turn) -> tuple[Object, Object]:
    """The report on a turn that was run behind another one, and the first difference."""
    ended, _ = await fleet.run(turn, fleet.model.tokenizer.encode("Rome."))
    report = await fleet.explain(ended, first)
    found = report["comparison"]["first_difference"]
    if found is not None and found["token"]:
        assert found["token"] == fleet.shared_tokens(first, ended) == report["comparison"]["reusable_tokens"]
    assert report["prompt_tokens"] == sum(report["lost"].values()) + report["new_tokens"] + report["cached_tokens"]
    return report, found


async def test_prompt_that_extends_the_one_before_lost_a_part_of_a_block_at_most() -> None:
    fleet, first = await started()
    report, found = await behind(fleet, first, continuing(first, "resp_2", AGAIN))
    assert found is None
    assert set(report["lost"]) <= {"block"}
    assert report["replica"] == report["comparison"]["replica"] is not None
    assert (report["comparison"]["age_s"], report["comparison"]["is_exact"]) == (5, True)


@pytest.mark.parametrize("cause", ["evicted", "other_replica", "restarted"])
async def test_loss_at_a_server_is_named_without_a_difference(cause: str) -> None:
    fleet, first = await started()
    (home,) = (each for each in fleet.replicas if len(each.cache))
    if cause == "other_replica":
        fleet.replicas.remove(home)
        fleet.service = fleet.translator()
    elif cause == "restarted":
        home.cache.clear()
    else:
        kept = KvCache(len(home.cache) - 8)  # the last 64 tokens make room
        kept.use([*home.cache._class_of][::-1])
        home.cache = kept
    report, found = await behind(fleet, first, continuing(first, "resp_2", AGAIN))
    assert found is None
    assert [name for name in report["lost"] if name != "block"] == [cause]
    assert report["lost"][cause] == report["comparison"]["reusable_tokens"] - report["cached_tokens"]
    assert (report["replica"] == report["comparison"]["replica"]) == (cause != "other_replica")


async def test_changed_salt_loses_everything_at_the_first_token() -> None:
    fleet = PromptFleet(replace(MODELS["qwen3"].load(), isolates_tenants=True))
    written = fleet.model.tokenizer.encode(ANSWER)
    first, _ = await fleet.run(replace(FIRST, cache_salt="epoch 1"), written)
    report, found = await behind(fleet, first, replace(continuing(first, "resp_2", AGAIN), cache_salt="epoch 2"))
    assert (found["cause"], found["token"], report["cached_tokens"]) == ("salt", 0, 0)
    assert report["lost"] == {"salt": len(fleet.seen["resp_1"])}


@pytest.mark.parametrize(("salt", "causes"), [("epoch 1", set()), ("epoch 2", {"unknown"})])
async def test_lineage_of_an_older_release_that_names_no_salt_is_no_cause(salt: str, causes: set[str]) -> None:
    fleet = PromptFleet(replace(MODELS["qwen3"].load(), isolates_tenants=True))
    written = fleet.model.tokenizer.encode(ANSWER)
    first, _ = await fleet.run(replace(FIRST, cache_salt="epoch 1"), written)
    (lineage,) = turn_lineage.decode_rounds(first.lineage)
    first = replace(first, lineage=turn_lineage.encode(replace(lineage, salt=b"")))
    turn = replace(continuing(first, "resp_2", AGAIN), cache_salt=salt)
    ended, _ = await fleet.run(turn, fleet.model.tokenizer.encode("Rome."))
    report = await fleet.explain(ended, first)
    assert report["comparison"]["first_difference"] is None
    assert {*report["lost"]} - {"block"} == causes
    facts = await fleet.explain(ended, None)
    assert {*facts["lost"]} - {"block"} == causes


async def test_text_whose_ids_were_not_known_is_retokenised() -> None:
    fleet, first = await started()
    other = fleet.translator(MODELS["qwen3"].load())  # it has neither the lineage nor a memory of the ids
    turn = replace(continuing(first, "resp_2", AGAIN), lineages=())
    ended, _ = await fleet.run(turn, fleet.model.tokenizer.encode("Rome."), service=other)
    report = await fleet.explain(ended, first)
    found = report["comparison"]["first_difference"]
    assert (found["cause"], found["token"]) == ("retokenised", fleet.shared_tokens(first, ended))
    assert found["before"].replace("│", "").startswith(found["after"].split("│")[0]), "the text is the same"
    assert found["item_id"] == loads(first.output_items)[0]["id"]


async def test_reasoning_that_the_template_drops_from_history_is_rewritten() -> None:
    fleet, first = await started("qwen3 stripped")
    report, found = await behind(fleet, first, continuing(first, "resp_2", AGAIN))
    assert (found["cause"], found["path"]) == ("template_rewrote", "history[1]")
    assert "Let me see" in found["before"]
    assert "Let me see" not in found["after"]
    assert report["lost"]["template_rewrote"] > 50


@pytest.mark.parametrize(
    ("changes", "cause", "path"),
    [
        ({"tools": [WEATHER | {"description": "What it is like outside."}]}, "tools", "tools[0]"),
        ({"tools": [WEATHER, WEATHER | {"name": "get_time"}]}, "tools", "tools[1]"),
        ({"instructions": INSTRUCTIONS + "Be brief."}, "instructions", "instructions"),
        ({"instructions": "Be brief."}, "instructions", "instructions"),
        ({"instructions": None}, "instructions", "instructions"),
    ],
)
async def test_changed_parameters_of_the_request_are_named(changes: Object, cause: str, path: str) -> None:
    fleet, first = await started()
    report, found = await behind(fleet, first, continuing(first, "resp_2", AGAIN, **changes))
    assert (found["cause"], found["path"]) == (cause, path)
    assert report["lost"][cause] > 50
    assert found["before"] != found["after"]


async def test_date_in_the_template_is_the_time_on_the_next_day() -> None:
    fleet, first = await started("gpt-oss")
    _, found = await behind(fleet, first, continuing(first, "resp_2", AGAIN))
    assert found is None
    next_day = continuing(first, "resp_3", AGAIN, created_at=FIRST.created_at + 86_400)
    report, found = await behind(fleet, first, next_day)
    assert (found["cause"], found["path"]) == ("time", None)
    assert report["lost"]["time"] > 50


async def test_clock_in_the_instructions_is_the_time() -> None:
    first_turn = replace(
        FIRST, request=dumps({"model": "m", "instructions": f"It is 2026-09-21T10:00:01. {INSTRUCTIONS}"})
    )
    fleet, first = await started(first=first_turn)
    changed = f"It is 2026-09-21T10:00:43. {INSTRUCTIONS}"
    _, found = await behind(fleet, first, continuing(first, "resp_2", AGAIN, instructions=changed))
    assert (found["cause"], found["path"]) == ("time", "instructions")
    assert "10:00:01" in found["before"]
    assert "10:00:43" in found["after"]


async def test_other_branch_and_edited_history_are_the_input() -> None:
    fleet, first = await started()
    history = loads(continuing(first, "resp_2", AGAIN).history)
    history[0]["content"][0]["text"] = "What is the capital of Spain? "
    edited = replace(continuing(first, "resp_2", AGAIN), history=dumps(history))
    report, found = await behind(fleet, first, edited)
    assert (found["cause"], found["path"], found["item_id"]) == ("input", "history[0]", "msg_1")
    assert report["lost"]["input"] > 50


async def test_oldest_turns_that_were_cut_off_are_compacted() -> None:
    kind = MODELS["qwen3"]
    fleet = PromptFleet(replace(kind.load(), context_length=420))
    turn = replace(FIRST, request=dumps({"model": "m", "truncation": "auto", "max_output_tokens": 60}))
    written = fleet.model.tokenizer.encode(ANSWER)[:50]
    before = ended = (await fleet.run(turn, written))[0]
    found, number = None, 1
    while found is None:
        before, number = ended, number + 1
        turn = continuing(before, f"resp_{number}", message("user", f"Say that again, for the {number}. time please."))
        ended, _ = await fleet.run(turn, written)
        found = (await fleet.explain(ended, before))["comparison"]["first_difference"]
    assert (found["cause"], found["token"]) == ("compacted", fleet.shared_tokens(before, ended))


async def test_other_effort_is_named() -> None:
    fleet, first = await started(
        "gpt-oss", replace(FIRST, request=dumps({"model": "m", "reasoning": {"effort": "low"}}))
    )
    _, found = await behind(fleet, first, continuing(first, "resp_2", AGAIN, reasoning={"effort": "high"}))
    assert (found["cause"], found["path"]) == ("reasoning_effort", "reasoning.effort")


async def test_other_image_is_named_though_the_text_is_the_same() -> None:
    fleet = PromptFleet(_seeing(), level=Level.TEXT)
    mark = fleet.model.tokenizer.encode(fleet.model.prompt.image_mark)
    shown = [user("What is it?", image_part(data_url(picture))) for picture in (PNG, png(2, 3))]
    first, _ = await fleet.run(replace(FIRST, request=dumps({"model": "m"}), input=dumps([shown[0]])), [5, 6])
    other = replace(first.turn, response_id="resp_2", input=dumps([shown[1]]))
    ended, _ = await fleet.run(other, [5, 6])
    report = await fleet.explain(ended, first)
    found = report["comparison"]["first_difference"]
    ids = fleet.seen["resp_2"]
    place = next(at for at in range(len(ids)) if ids[at : at + len(mark)] == mark)
    assert (found["cause"], found["token"], found["path"]) == ("images", place, "input[0]")


def _seeing() -> ServedModel:
    made = MODELS["qwen3"].load()
    template = JinjaTemplate(source_of(MODELS["qwen3"].template), special_tokens={}, image_token="<image>")
    return replace(made, prompt=PromptEncoder(template, made.tokenizer), sight=Sight.NATIVE)


async def test_other_model_is_named_and_nothing_is_rendered() -> None:
    fleet, first = await started()
    ended, _ = await fleet.run(continuing(first, "resp_2", AGAIN), [5])
    before = replace(first, turn=replace(first.turn, request=dumps({"model": "another"})))
    found = (await fleet.explain(ended, before))["comparison"]["first_difference"]
    assert (found["cause"], found["token"], found["before"], found["after"]) == ("model", 0, "another", "m")


async def test_what_cannot_be_proved_is_not_named() -> None:
    fleet, first = await started()
    ended, _ = await fleet.run(continuing(first, "resp_2", AGAIN), [5])
    forged = replace(first, turn=replace(first.turn, input=dumps([message("user", "Something else.")])))
    comparison = (await fleet.explain(ended, forged))["comparison"]
    assert not comparison["is_exact"]
    assert comparison["reusable_tokens"] is None
    bare = replace(ended, lineage=b"")
    report = await fleet.explain(bare, first)
    assert (report["prompt_tokens"], report["lost"], report["cached_tokens"]) == (None, {}, None)


async def test_resent_conversation_is_compared_with_the_ids_that_it_was_given() -> None:
    fleet, first = await started()
    turn = continuing(first, "resp_2", AGAIN)
    ended, _ = await fleet.run(turn, [5])
    resent = replace(turn, lineages=(), history=b"[]", input=dumps([*loads(turn.history), *loads(turn.input)]))
    fleet.service = fleet.translator(MODELS["qwen3"].load())
    report = await fleet.explain(replace(ended, turn=resent), first)
    assert report["comparison"]["first_difference"] is None
    assert report["comparison"]["reusable_tokens"] == fleet.shared_tokens(first, ended)


async def test_without_the_ids_of_both_a_difference_has_no_token() -> None:
    fleet, first = await started()
    ended, _ = await fleet.run(continuing(first, "resp_2", AGAIN, instructions="Be brief."), [5])
    (lineage,) = turn_lineage.decode_rounds(first.lineage)
    other = replace(first, lineage=turn_lineage.encode(replace(lineage, prompt_tokens=lineage.prompt_tokens + 1)))
    comparison = (await fleet.explain(ended, other))["comparison"]
    found = comparison["first_difference"]
    assert (found["cause"], found["token"], comparison["reusable_tokens"]) == ("instructions", None, None)


async def test_without_a_comparison_the_lineage_is_told() -> None:
    fleet, first = await started()
    report = await fleet.explain(first, None)
    assert report == {
        "prompt_tokens": report["prompt_tokens"],
        "cached_tokens": 0,
        "lost_tokens": 0,
        "new_tokens": report["prompt_tokens"],
        "lost": {},
        "replica": report["replica"],
        "comparison": None,
    }


@pytest.mark.parametrize(
    ("before", "after", "is_clock"),
    [
        ("Now: 2026-11-28 10:00", "Now: 2026-11-29 10:00", True),
        ("It is 9:59 am.", "It is 10:00 am.", True),
        ("Today is 28 November 2026", "Today is 29 November 2026", True),
        ("ts=1790000000123 x", "ts=1790000123456 x", True),
        ("On Monday we", "On Tuesday we", True),
        ("Version 2.1 of it", "Version 2.2 of it", False),
        ("It is 9:59 am.", "It is late, 9:59 am.", False),
    ],
)
def test_clocks_are_known_by_their_forms_in_both_texts(before: str, after: str, is_clock: bool) -> None:
    place = common_length(before, after)
    assert (is_time(before, after, place) and is_time(after, before, place)) == is_clock


@pytest.mark.parametrize("length", [0, 1, 7, 10])
def test_common_length_is_that_of_the_equal_beginning(length: int) -> None:
    whole = list(range(10))
    assert common_length(whole, [*whole[:length], -1]) == length
    assert common_length(whole[:length], whole) == length


@pytest.mark.parametrize("cause", list(Cause))
def test_difference_is_a_miss_where_openai_has_a_reason_for_it(cause: Cause) -> None:
    rounds = [TurnLineage(1, prompt_tokens=100, cached_tokens=10)]
    report = CacheReport(rounds, "t", None, 40, Difference(cause, 40), {cause.value: 60, "block": 5}, is_exact=True)
    expected = {"type": "cache_miss", "cache_missed_tokens": 65, "comparison_reusable_tokens": 40}
    unavailable = {"type": "unavailable"}
    reason = REASONS.get(cause)
    assert report.diagnostics() == (unavailable if reason is None else expected | {"reason": reason})


@pytest.mark.parametrize(
    ("lost", "has_other_key", "told"),
    [
        ({"block": 5}, True, {"type": "cache_hit"}),
        ({"evicted": 60}, True, {"type": "unavailable"}),
        ({"other_replica": 60}, False, {"type": "unavailable"}),
        (
            {"other_replica": 60},
            True,
            {
                "type": "cache_miss",
                "reason": "prompt_cache_key_changed",
                "cache_missed_tokens": 60,
                "comparison_reusable_tokens": 100,
            },
        ),
    ],
)
def test_prompt_without_a_difference_is_a_hit_or_a_miss_by_what_servers_lost(
    lost: Object, has_other_key: bool, told: Object
) -> None:
    rounds = [TurnLineage(1, prompt_tokens=100, cached_tokens=40)]
    report = CacheReport(rounds, "t", None, 100, None, lost, is_exact=True, has_other_key=has_other_key)
    assert report.diagnostics() == told


async def test_prompt_of_the_last_round_is_found_by_its_lineage() -> None:
    fleet, first = await started()
    call = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": "42"}
    turn = replace(first.turn, output=dumps([call]))
    later, _ = await fleet.run(replace(turn, response_id="resp_3"), fleet.model.tokenizer.encode("It is 42."))
    rounds = turn_lineage.encode(turn_lineage.decode_rounds(later.lineage)[0], first.lineage)
    answer = loads(later.output_items)
    ended = EndedTurn(first.turn, dumps([call, *answer[-1:]]), rounds)
    made = last_prompt(fleet.model, ended, TurnMedia(), Level.TOKENS)
    assert made.is_exact
    assert list(made.whole_ids) == fleet.seen["resp_3"]
