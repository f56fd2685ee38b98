"""The chunks have the forms of vLLM, SGLang and llama.cpp."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object
from antiphon_translator.engines.openai_wire import (
    DIALECTS,
    PLAIN,
    STANDARD,
    Dialect,
    ListedModel,
    body,
    dialect_of,
    parse_models,
)
from antiphon_translator.generation import (
    UNLIMITED,
    ChatPrompt,
    GenerationRequest,
    Guide,
    GuideKind,
    Sampling,
)

MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL: Object = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
REQUEST = GenerationRequest(request_id="r", max_tokens=40, prompt=ChatPrompt(MESSAGES))
VLLM = DIALECTS["vllm"]


def test_body_of_a_plain_request_has_only_the_required_members() -> None:
    assert body(REQUEST, "m", VLLM) == {
        "model": "m",
        "messages": MESSAGES,
        "max_tokens": 40,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_unlimited_length_sends_no_max_tokens() -> None:
    assert "max_tokens" not in body(replace(REQUEST, max_tokens=UNLIMITED), "m", VLLM)


def test_listed_models_have_the_context_length_of_the_server() -> None:
    models: Object = {"data": [{"id": "a", "max_model_len": 4096}, {"id": "b"}, {"id": "c", "max_model_len": "x"}]}
    assert parse_models(models) == [ListedModel("a", 4096), ListedModel("b"), ListedModel("c")]
    assert parse_models({"data": []}) == []
    lists: list[Object] = [{}, {"data": [7]}, {"data": [{}]}, {"data": None}]
    for unreadable in lists:
        with pytest.raises(EngineFault, match="cannot be read"):
            parse_models(unreadable)


def test_body_has_all_sampling_tools_and_template_arguments() -> None:
    chat = ChatPrompt(MESSAGES, [TOOL], "required", {"enable_thinking": False})
    sampling = Sampling(temperature=0.0, top_p=0.5, top_k=3, min_p=0.1, repetition_penalty=1.5, seed=7)
    asked = replace(REQUEST, prompt=chat, sampling=sampling, stop=("END",), stop_in_reasoning=True, lora="mine")
    written = body(asked, "m", VLLM)
    sent = {"temperature": 0.0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.5, "seed": 7}
    assert sent.items() <= written.items()
    assert (written["model"], written["stop"]) == ("mine", ["END"])
    assert (written["tools"], written["tool_choice"]) == ([TOOL], "required")
    assert written["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in body(replace(REQUEST, prompt=chat), "m", PLAIN)
    assert "tool_choice" not in body(replace(REQUEST, prompt=ChatPrompt(MESSAGES, (), "none")), "m", VLLM)


def test_strict_functions_are_marked_for_servers_that_take_it() -> None:
    other = {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}
    chat = ChatPrompt(MESSAGES, [TOOL, other], "auto", strict=frozenset({"f"}))
    for dialect in ("vllm", "sglang"):
        strict, plain = body(replace(REQUEST, prompt=chat), "m", DIALECTS[dialect])["tools"]
        assert strict == {"type": "function", "function": {**TOOL["function"], "strict": True}}
        assert plain == other
    for written in (body(replace(REQUEST, prompt=chat), "m", each) for each in (PLAIN, DIALECTS["llamacpp"])):
        assert written["tools"] == [TOOL, other]


def test_server_that_takes_no_named_choice_is_offered_that_function_alone() -> None:
    other = {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}
    named = {"type": "function", "function": {"name": "g"}}
    asked = replace(REQUEST, prompt=ChatPrompt(MESSAGES, [TOOL, other], named))
    written = body(asked, "m", DIALECTS["llamacpp"])
    assert (written["tools"], written["tool_choice"]) == ([other], "required")
    assert body(asked, "m", VLLM)["tool_choice"] == named


@pytest.mark.parametrize(("asked", "sent"), [(0, 1), (1, 1), (20, 20)])
def test_log_probabilities_are_requested_with_at_least_one_alternative(asked: int, sent: int) -> None:
    written = body(replace(REQUEST, top_logprobs=asked), "m", PLAIN)
    assert (written["logprobs"], written["top_logprobs"]) == (True, sent)


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        ("vllm", {"reasoning"}),
        ("sglang", {"reasoning_content"}),
        ("llamacpp", {"reasoning_content"}),
        ("library", {"reasoning", "reasoning_content"}),
        (None, {"reasoning", "reasoning_content"}),
    ],
)
def test_earlier_reasoning_is_sent_under_the_names_that_the_server_reads(owner: str | None, names: set[str]) -> None:
    answer: Object = {"role": "assistant", "content": "Rome.", "reasoning": "Hm."}
    dialect = dialect_of({"data": [{"id": "m", "owned_by": owner}]}, "m")
    user, sent = body(replace(REQUEST, prompt=ChatPrompt([*MESSAGES, answer])), "m", dialect)["messages"]
    assert user == MESSAGES[0]
    assert sent == {"role": "assistant", "content": "Rome."} | dict.fromkeys(names, "Hm.")
    assert answer["reasoning"] == "Hm."


def test_controls_are_sent_under_the_names_of_the_dialect() -> None:
    asked = replace(REQUEST, sampling=Sampling(repetition_penalty=1.5))
    assert body(asked, "m", DIALECTS["llamacpp"])["repeat_penalty"] == 1.5
    with pytest.raises(EngineFault, match="cannot be told repetition_penalty"):
        body(asked, "m", PLAIN)
    assert PLAIN.controls == {*STANDARD, "guide", "stop", "logprobs", "top_logprobs", "images", "lora"}
    added = {"top_k", "min_p", "repetition_penalty", "text_guide", "ignore_eos", "switches"}
    assert VLLM.controls - PLAIN.controls == added


@pytest.mark.parametrize(
    ("guide", "dialect", "written"),
    [
        (Guide(GuideKind.JSON), PLAIN, {"response_format": {"type": "json_object"}}),
        (
            Guide(GuideKind.JSON_SCHEMA, '{"type":"object"}'),
            PLAIN,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "output", "schema": {"type": "object"}, "strict": True},
                }
            },
        ),
        (
            Guide(GuideKind.JSON_SCHEMA, "{}", "person", description="Who.", is_strict=False),
            PLAIN,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "person", "description": "Who.", "schema": {}, "strict": False},
                }
            },
        ),
        (Guide(GuideKind.REGEX, "a+"), VLLM, {"structured_outputs": {"regex": "a+"}}),
        (Guide(GuideKind.EBNF, "g"), VLLM, {"structured_outputs": {"grammar": "g"}}),
        (Guide(GuideKind.REGEX, "a+"), DIALECTS["sglang"], {"regex": "a+"}),
        (Guide(GuideKind.EBNF, "g"), DIALECTS["sglang"], {"ebnf": "g"}),
    ],
)
def test_guide_is_sent_in_the_form_of_the_dialect(guide: Guide, dialect: Dialect, written: Object) -> None:
    assert written.items() <= body(replace(REQUEST, guide=guide), "m", dialect).items()


def test_guide_without_a_name_on_the_server_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="guide of type ebnf_grammar"):
        body(replace(REQUEST, guide=Guide(GuideKind.EBNF, "g")), "m", PLAIN)


def test_dialect_is_detected_from_the_list_of_models() -> None:
    models = {"data": [{"id": "a", "owned_by": "sglang"}, {"id": "m", "owned_by": "vllm"}]}
    assert dialect_of(models, "m") is VLLM
    assert dialect_of(models, "adapter") is DIALECTS["sglang"]
    assert dialect_of({"data": [{"id": "m", "owned_by": "system"}]}, "m") is PLAIN
    assert dialect_of({"data": []}, "m") is PLAIN
    for wrong in ({}, {"data": None}, {"data": ["m"]}):
        with pytest.raises(EngineFault, match="list of models"):
            dialect_of(wrong, "m")
