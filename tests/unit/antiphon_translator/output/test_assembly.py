from __future__ import annotations

from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import Parameters
from antiphon_core.telemetry import metrics
from antiphon_translator.output.assembly import Assembly
from antiphon_translator.output.machine import Begin, ResponseMachine
from antiphon_translator.parsing.segments import (
    Arguments,
    Break,
    CallBegin,
    CallEnd,
    Candidate,
    Reasoning,
    Refusal,
    ScoredText,
    ScoredToken,
    Segment,
    Text,
    Unread,
)
from antiphon_translator.prompt import declarations, tools
from antiphon_translator.prompt.tools import ToolSet

FUNCTION = {"type": "function", "name": "f"}
CUSTOM = {"type": "custom", "name": "exec"}
NAMESPACE = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]}


def tool_set(choice: Any = "auto") -> ToolSet:
    body = {"model": "m", "tools": [FUNCTION, CUSTOM, NAMESPACE], "tool_choice": choice}
    parameters = Parameters.parse(dumps(body))
    return tools.offered_tools(declarations.at("tools", parameters.tools or []), parameters.tool_choice)


class Assembled:
    """A response that is assembled from segments, with its events."""

    def __init__(self, offered: ToolSet | None = None, **options: Any) -> None:
        ids = RandomIds()
        self.machine = ResponseMachine(response.skeleton({"model": "m"}, response_id="resp_1", created_at=0), ids)
        self.machine.send(Begin())
        self.assembly = Assembly(self.machine, offered or tool_set(), ids, family="hermes", **options)

    def take(self, *segments: Segment) -> list[Object]:
        """Returns the output items and checks that the events fold to them."""
        self.assembly.take(segments)
        self.assembly.close()
        log = [event for batch in self.machine.take() for event in events.decode(batch.frames)]
        assert fold(log) == self.machine.snapshot()
        output: list[Object] = self.machine.snapshot()["output"]
        return output


def test_reasoning_is_shown_as_a_summary_if_requested() -> None:
    thought, answer = Assembled(summary=True).take(Reasoning("Hm. "), Reasoning("Well."), Text("Yes."))
    assert (thought["summary"][0]["text"], thought["content"]) == ("Hm. Well.", [])
    assert answer["content"][0]["text"] == "Yes."


def call(name: str, *arguments: str, is_complete: bool = True) -> list[Segment]:
    return [CallBegin(name), *map(Arguments, arguments), CallEnd(is_complete)]


def test_reasoning_text_and_calls_become_items_in_order() -> None:
    output = Assembled().take(Reasoning("Hm"), Reasoning("m."), Text("I "), Text("look."), *call("f", '{"a"', ": 1}"))
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    assert output[0]["content"] == [{"type": "reasoning_text", "text": "Hmm."}]
    assert output[1]["content"][0]["text"] == "I look."
    assert (output[2]["name"], output[2]["arguments"], output[2]["status"]) == ("f", '{"a": 1}', "completed")


def test_refusal_is_a_message_of_its_own_with_one_part() -> None:
    text, refusal = Assembled().take(Text("Well."), Refusal("I can"), Refusal("not."))
    assert (text["type"], refusal["type"], refusal["status"]) == ("message", "message", "completed")
    assert refusal["content"] == [{"type": "refusal", "refusal": "I cannot."}]


def test_text_pieces_of_one_chunk_make_one_delta() -> None:
    assembled = Assembled()
    assembled.assembly.take([Text("a"), Text("b"), Text("c")])
    log = [event for batch in assembled.machine.take() for event in events.decode(batch.frames)]
    assert [event["delta"] for event in log if "delta" in event] == ["abc"]


def test_scored_and_plain_text_make_one_message() -> None:
    token = ScoredToken(b"x", -0.5, (Candidate(b"y", -1.5),))
    assembled = Assembled()
    assembled.assembly.take([Text("a"), ScoredText("x", (token,)), ScoredText("x", (token,))])
    (item,) = assembled.take()
    (part,) = item["content"]
    shown = {"token": "x", "logprob": -0.5, "bytes": [120]}
    other = {"token": "y", "logprob": -1.5, "bytes": [121]}
    assert (part["text"], part["logprobs"]) == ("axx", [shown | {"top_logprobs": [other]}] * 2)


@pytest.mark.parametrize(("model_id", "kept"), [("functions.f:3", "functions.f:3"), ("call_1", None), (None, None)])
def test_id_of_the_model_is_kept_if_it_has_the_name_of_the_tool(model_id: str | None, kept: str | None) -> None:
    (item,) = Assembled().take(CallBegin("f", model_id), Arguments("{}"), CallEnd(is_complete=True))
    assert (item.get("model_call_id"), item["call_id"][:5]) == (kept, "call_")


def test_call_ids_are_unique() -> None:
    output = Assembled().take(*call("f", "{}"), *call("f", "{}"))
    assert len({item["call_id"] for item in output}) == len({item["id"] for item in output}) == 2
    assert all(item["call_id"].startswith("call_") for item in output)


def test_call_of_a_custom_tool_has_its_plain_input() -> None:
    (item,) = Assembled().take(*call("exec", '{"input": "pri', 'nt(\\"x\\")"}'))
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "exec", 'print("x")')


def test_call_of_a_namespaced_tool_has_namespace_and_name() -> None:
    (item,) = Assembled().take(*call("n__g", "{}"))
    assert (item["namespace"], item["name"]) == ("n", "g")


def test_a_call_that_was_cut_off_is_incomplete() -> None:
    (item,) = Assembled().take(*call("f", '{"a', is_complete=False))
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a')


def test_preamble_before_a_call_has_the_phase_commentary() -> None:
    output = Assembled().take(Break("commentary"), Text("I look."), *call("f", "{}"), Break(), Text("Done."))
    assert [item.get("phase") for item in output] == ["commentary", None, None]


def test_two_runs_of_one_kind_are_two_items() -> None:
    output = Assembled().take(Break(), Reasoning("a"), Break(), Reasoning("b"))
    assert [item["type"] for item in output] == ["reasoning", "reasoning"]


def test_without_parallel_calls_the_assembly_stops_after_one_call() -> None:
    assembled = Assembled(one_call=True)
    assembled.assembly.take(call("f", "{}"))
    assert assembled.assembly.has_enough
    assert len(assembled.take(*call("f", "{}"))) == 1


def test_incomplete_call_is_not_the_one_call_of_a_turn() -> None:
    assembled = Assembled(one_call=True)
    assembled.assembly.take(call("f", "<c>f", is_complete=False))
    assert not assembled.assembly.has_enough
    output = assembled.take(*call("f", "{}"), *call("f", "{}"))
    assert [item["status"] for item in output] == ["incomplete", "completed"]


def test_unread_output_is_counted_and_logged_without_its_content(caplog: pytest.LogCaptureFixture) -> None:
    counted = metrics.UNREAD_OUTPUT.of("hermes", "text")
    before = counted.value
    (item,) = Assembled().take(Text("secret"), Unread("text", 6), Text(" words"))
    assert item["content"][0]["text"] == "secret words"
    assert counted.value == before + 1
    assert "6 characters" in caplog.text
    assert "secret" not in caplog.text


def test_with_parallel_calls_the_assembly_does_not_stop_after_a_call() -> None:
    assembled = Assembled()
    assembled.assembly.take(call("f", "{}"))
    assert not assembled.assembly.has_enough


def test_call_excluded_by_tool_choice_is_dropped_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    counted = metrics.UNREAD_OUTPUT.of("hermes", "tool_choice")
    before = counted.value
    only_f = tool_set({"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION]})
    output = Assembled(only_f).take(*call("exec", '{"input": "x"}'), *call("f", "{}"))
    assert [item["name"] for item in output] == ["f"]
    assert counted.value == before + 1
    assert "exec" in caplog.text


def test_call_of_an_unknown_tool_is_passed_on() -> None:
    (item,) = Assembled().take(*call("rm", "{}"))
    assert item["name"] == "rm"
