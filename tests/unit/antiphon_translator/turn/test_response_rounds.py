"""Rounds of a response that calls tools of servers: golden orders of events, and the prompts of later rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import EngineTimeout
from antiphon_core.fold import fold
from antiphon_core.ids import DerivedIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import TOOL_ARGUMENTS_BYTES_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Pause, Resume, ServerTool, Turn, Usage
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import (
    ChatChunk,
    ChatPrompt,
    FinishReason,
    GenerationRequest,
    Level,
    ReportedUsage,
    TokenChunk,
)
from antiphon_translator.parsing import families
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.pipeline import TurnPipeline
from tests.support.pipelines import pipeline_of
from tests.support.served_models import END_ID, model, tokenizer, turn
from tests.support.server_tools import BUY, SEARCH, listed, server, server_call

FUNCTION: Object = {"type": "function", "name": "f"}
ITEM_IDS = "item_id"
ROUND_ONE = ["response.output_item.added", "response.mcp_call.in_progress", "response.mcp_call_arguments.delta"]
LISTING = [
    "response.output_item.added",
    "response.mcp_list_tools.in_progress",
    "response.mcp_list_tools.completed",
    "response.output_item.done",
]
MESSAGE = [
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]


def call(name: str, arguments: str = "{}", *, is_complete: bool = True) -> list[Segment]:
    return [CallBegin(name), Arguments(arguments), CallEnd(is_complete)]


def first_turn(*, output: Sequence[Object] = (), used: Usage | None = None, **request: Any) -> Turn:
    """Returns a turn with a tool server, whose tools were listed."""
    made = turn("Hi", tools=[server(), FUNCTION], **request)
    given = [listed(SEARCH, BUY), *output]
    return replace(made, output=dumps(given)) if used is None else replace(made, output=dumps(given), used=used)


class Round:
    """A round of a chat engine, with all of its events."""

    def __init__(
        self,
        given: Turn,
        *segments: Segment,
        resume: Resume | None = None,
        finish: FinishReason = FinishReason.STOP,
        error: bool = False,
    ) -> None:
        ids = DerivedIds(f"{given.response_id}/{len(loads(given.output))}")
        made = pipeline_of(model(), given, controls=ALL_CONTROLS, ids=ids, level=Level.CHAT, resume=resume)
        batches, request = made.start()
        self.request: GenerationRequest = request
        batches += made.receive([ChatChunk(segments, finish, ReportedUsage(10, 3))])
        batches += made.fail(EngineTimeout("No token.")) if error else made.finish(completed_at=9)
        self.batches: Sequence[Batch] = batches
        self.log = [event for batch in batches for event in events.decode(batch.frames)]
        self.types = [event["type"] for event in self.log]

    @property
    def prompt(self) -> ChatPrompt:
        assert isinstance(self.request.prompt, ChatPrompt)
        return self.request.prompt

    @property
    def pause(self) -> Pause:
        pause = self.batches[-1].pause
        assert pause is not None
        return pause

    @property
    def paused_output(self) -> list[Object]:
        output: list[Object] = loads(self.pause.output_items)
        return output

    @property
    def next_sequence(self) -> int:
        return self.batches[-1].first_sequence + self.batches[-1].count


def answered(item: Object, output: str = "Found.") -> Object:
    return item | {"status": "completed", "output": output}


def result_events(item: Object, index: int, first: int) -> list[Object]:
    """The events with which an edge ends a call."""
    at: Object = {"item_id": item["id"], "output_index": index}
    return [
        {"type": "response.mcp_call.completed", "sequence_number": first, **at},
        {"type": "response.output_item.done", "sequence_number": first + 1, "output_index": index, "item": item},
    ]


def test_two_rounds_have_the_golden_order_and_fold_to_the_response() -> None:
    one = Round(first_turn(), Reasoning("Hm."), *call("shop__search", '{"q":"tea"}'))
    assert one.types[:2] == ["response.created", "response.in_progress"]
    assert one.types[2:6] == LISTING
    assert one.types[-4:] == [*ROUND_ONE, "response.mcp_call_arguments.done"]
    opened = one.paused_output[-1]
    assert (opened["server_label"], opened["name"], opened["status"]) == ("shop", "search", "in_progress")
    assert fold(one.log)["output"] == one.paused_output

    done = answered(opened)
    told = result_events(done, 2, one.next_sequence)
    output = [*one.paused_output[:-1], done]
    two = Round(
        replace(first_turn(), output=dumps(output), used=one.pause.used),
        Text("Tea is there."),
        resume=Resume(one.next_sequence + 2, sent_items=len(output)),
    )
    assert two.types == [*MESSAGE, "response.completed"]
    whole = [*one.log, *told, *two.log]
    assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
    ended = fold(whole)
    final = two.batches[-1].final
    assert final is not None
    assert ended == loads(final.body) | {"output": loads(final.output_items)}
    assert [item["type"] for item in ended["output"]] == ["mcp_list_tools", "reasoning", "mcp_call", "message"]
    assert ended["usage"]["input_tokens"] == 20
    assert ended["usage"]["output_tokens"] == 6
    assert len({item["id"] for item in ended["output"]}) == 4


def test_calls_of_a_round_are_one_message_in_the_next_prompt_and_rounds_are_apart() -> None:
    first = server_call("mcp_1")
    second = server_call("mcp_2", "buy", arguments="{}", output="Bought.", parallel_with="mcp_1")
    third = server_call("mcp_3", output="Again.")
    made = Round(first_turn(output=[first, second, third]), Text("Done."))
    roles = [(each["role"], len(each.get("tool_calls", ()))) for each in made.prompt.messages]
    assert roles == [("user", 0), ("assistant", 2), ("tool", 0), ("tool", 0), ("assistant", 1), ("tool", 0)]
    assert [each["content"] for each in made.prompt.messages if each["role"] == "tool"] == [
        "Found.",
        "Bought.",
        "Again.",
    ]


def test_second_call_of_a_round_names_the_first() -> None:
    made = Round(first_turn(), *call("shop__search"), *call("shop__buy"))
    first, second = made.paused_output[1:]
    assert "parallel_with" not in first
    assert second["parallel_with"] == first["id"]


def test_functions_of_the_client_end_the_round_beside_calls_of_a_server() -> None:
    made = Round(first_turn(), *call("shop__search"), *call("f"))
    assert [(item["type"], item["status"]) for item in made.paused_output[1:]] == [
        ("mcp_call", "in_progress"),
        ("function_call", "completed"),
    ]
    assert made.types[-1] == "response.output_item.done"


def test_answer_without_calls_completes_in_the_first_round() -> None:
    made = Round(first_turn(), Text("Hello."))
    assert made.types[-1] == "response.completed"
    assert made.batches[-1].pause is None


def test_cut_off_call_pauses_with_the_reason_and_is_incomplete() -> None:
    segments = [*call("shop__search"), *call("shop__buy", "{", is_complete=False)]
    made = Round(first_turn(), *segments, finish=FinishReason.LENGTH)
    assert made.pause.cut_off == "max_output_tokens"
    assert [item["status"] for item in made.paused_output[1:]] == ["in_progress", "incomplete"]


def test_failed_round_keeps_its_calls_as_incomplete() -> None:
    made = Round(first_turn(), *call("shop__search"), error=True)
    final = made.batches[-1].final
    assert final is not None
    assert final.status is Status.FAILED
    assert loads(final.output_items)[-1]["status"] == "incomplete"


def names_offered(made: Round) -> list[str]:
    return [each["function"]["name"] for each in made.prompt.tools]


def test_choice_forces_the_first_round_only() -> None:
    choice = {"type": "mcp", "server_label": "shop", "name": "search"}
    one = Round(first_turn(tool_choice=choice), *call("shop__search"))
    assert one.prompt.tool_choice == {"type": "function", "function": {"name": "shop__search"}}
    two = Round(first_turn(tool_choice=choice, output=[server_call()]), Text("So."))
    assert two.prompt.tool_choice != one.prompt.tool_choice
    assert names_offered(two) == names_offered(one)


def test_used_up_calls_leave_the_tools_in_the_prompt_and_a_further_call_is_ignored() -> None:
    sent = Resume(9, sent_items=2)
    made = Round(first_turn(max_tool_calls=1, output=[server_call()]), *call("shop__buy"), Text("So."), resume=sent)
    assert names_offered(made) == ["shop__buy", "shop__search", "f"]
    assert "response.mcp_call.in_progress" not in made.types


def test_token_limit_holds_for_all_rounds() -> None:
    made = Round(first_turn(max_output_tokens=50, output=[server_call()], used=Usage(9, 20)), Text("So."))
    assert made.request.max_tokens == 30
    assert made.log[-1]["response"]["max_output_tokens"] == 50


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_round_resumes_behind_its_token_ids_with_the_same_items(cut: int) -> None:
    syntax = TokenSyntax(families.load("hermes"), tokenizer())
    text = 'I look.<tool_call>{"name": "shop__search", "arguments": {"q": 1}}</tool_call>'
    ids = [*tokenizer().encode(text), END_ID]

    def made(resume: Resume | None) -> TurnPipeline:
        given = first_turn()
        served = model(syntax=syntax)
        return pipeline_of(served, given, controls=ALL_CONTROLS, ids=DerivedIds("x/1"), resume=resume, checkpoints=True)

    def rest(pipeline: TurnPipeline, tokens: Sequence[int]) -> list[Batch]:
        batches = [batch for token in tokens for batch in pipeline.receive([TokenChunk([token])])]
        return batches + pipeline.finish(completed_at=9)

    whole = made(None)
    opening, _ = whole.start()
    first = [*opening, *(batch for token in ids[:cut] for batch in whole.receive([TokenChunk([token])]))]
    expected = rest(whole, ids[cut:])
    resumed = made(Resume(first[-1].first_sequence + first[-1].count, tuple(ids[:cut])))
    again, _ = resumed.start()
    continued = [*again, *rest(resumed, ids[cut:])]
    assert b"".join(batch.frames for batch in continued) == b"".join(batch.frames for batch in expected)
    assert continued[-1].pause == expected[-1].pause
    assert expected[-1].pause is not None


# ---- Approvals ----

ASKED = ["response.output_item.added", "response.output_item.done"]
BUYING_ASKS = [ServerTool("shop", "buy")]


def asking(**request: Any) -> Turn:
    return replace(first_turn(**request), approval_tools=BUYING_ASKS)


def approved(**members: object) -> Object:
    """A call that a person has approved, before it is run."""
    waits = {"status": "in_progress", "output": None, "approval_request_id": "mcpr_1"}
    return server_call("mcp_9", "buy", **waits | members)


def test_call_that_needs_an_approval_is_one_request_and_ends_the_response() -> None:
    made = Round(asking(), Text("I buy."), *call("shop__buy", '{"n":1}'))
    assert made.types[-3:] == [*ASKED, "response.completed"]
    added, done = made.log[-3:-1]
    assert added["item"] == done["item"]
    request = dict(done["item"])
    assert request.pop("id").startswith("mcpr_")
    assert request == {
        "type": "mcp_approval_request",
        "server_label": "shop",
        "name": "buy",
        "arguments": '{"n":1}',
    }
    assert fold(made.log)["output"][-1] == done["item"]


def test_round_with_calls_of_both_kinds_pauses_with_the_request_beside_the_open_call() -> None:
    made = Round(asking(), *call("shop__buy"), *call("shop__search"))
    request, opened = made.paused_output[1:]
    assert (request["type"], opened["type"], opened["status"]) == ("mcp_approval_request", "mcp_call", "in_progress")
    assert opened["parallel_with"] == request["id"]


@pytest.mark.parametrize("arguments", ["{", "x" * (TOOL_ARGUMENTS_BYTES_MAX + 1)])
def test_call_that_is_cut_off_or_too_long_asks_for_no_approval(arguments: str) -> None:
    is_whole = len(arguments) > 1
    finish = FinishReason.STOP if is_whole else FinishReason.LENGTH
    made = Round(asking(), *call("shop__buy", arguments, is_complete=is_whole), finish=finish)
    last = made.log[-1]["response"]["output"][-1]
    assert (last["type"], last["status"]) == ("mcp_call", "incomplete")


def test_approved_calls_are_sent_before_the_first_round_and_pause_it() -> None:
    again = {"id": "mcpr_2", "type": "mcp_approval_request", "server_label": "shop", "name": "buy", "arguments": "{}"}
    given = replace(first_turn(output=[approved(), again]), round_lineage=b"found")
    ids = DerivedIds("x/3")
    made = pipeline_of(model(), given, controls=ALL_CONTROLS, ids=ids, level=Level.CHAT)
    assert made.generates_nothing
    (batch,), _request = made.start()
    types = [event["type"] for event in events.decode(batch.frames)]
    assert types == [
        "response.created",
        "response.in_progress",
        *LISTING,
        *ROUND_ONE,
        "response.mcp_call_arguments.done",
        *ASKED,
    ]
    assert batch.pause is not None
    assert loads(batch.pause.output_items) == fold(events.decode(batch.frames))["output"]
    assert batch.pause.lineage == b"found"


def test_result_of_an_approved_call_is_that_of_its_request() -> None:
    request = {"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "shop", "name": "buy"}
    done = approved(status="completed", output="Bought.")
    given = replace(first_turn(output=[done]), history=dumps([request | {"arguments": "{}"}]))
    made = Round(given, Text("So."))
    assert [each["content"] for each in made.prompt.messages if each["role"] == "tool"] == ["Bought."]
    assert not pipeline_of(
        model(), given, controls=ALL_CONTROLS, ids=DerivedIds("x"), level=Level.CHAT
    ).generates_nothing
