"""The chunks have the forms of vLLM, SGLang and llama.cpp."""

from __future__ import annotations

from dataclasses import replace
from time import thread_time
from typing import Any

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object
from antiphon_translator.engines.openai_wire import (
    DIALECTS,
    PLAIN,
    STANDARD,
    ChunkReader,
    Dialect,
    ListedModel,
    body,
    dialect_of,
    listed,
)
from antiphon_translator.generation import (
    UNLIMITED,
    ChatPrompt,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Sampling,
    Usage,
)
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from tests.support.chunks import usage_in

MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
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
    assert listed(models) == [ListedModel("a", 4096), ListedModel("b"), ListedModel("c")]
    assert listed({"data": []}) == []
    lists: list[Object] = [{}, {"data": [7]}, {"data": [{}]}, {"data": None}]
    for unreadable in lists:
        with pytest.raises(EngineFault, match="cannot be read"):
            listed(unreadable)


def test_body_has_all_sampling_tools_and_template_arguments() -> None:
    chat = ChatPrompt(MESSAGES, [TOOL], "required", {"enable_thinking": False})
    sampling = Sampling(temperature=0.0, top_p=0.5, top_k=3, min_p=0.1, repetition_penalty=1.5, seed=7)
    asked = replace(REQUEST, prompt=chat, sampling=sampling, stop=("END",), lora="mine")
    written = body(asked, "m", VLLM)
    sent = {"temperature": 0.0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.5, "seed": 7}
    assert sent.items() <= written.items()
    assert (written["model"], written["stop"]) == ("mine", ["END"])
    assert (written["tools"], written["tool_choice"]) == ([TOOL], "required")
    assert written["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in body(replace(REQUEST, prompt=chat), "m", PLAIN)
    assert "tool_choice" not in body(replace(REQUEST, prompt=ChatPrompt(MESSAGES, (), "none")), "m", VLLM)


@pytest.mark.parametrize(("asked", "sent"), [(0, 1), (1, 1), (20, 20)])
def test_log_probabilities_are_requested_with_at_least_one_alternative(asked: int, sent: int) -> None:
    written = body(replace(REQUEST, top_logprobs=asked), "m", PLAIN)
    assert (written["logprobs"], written["top_logprobs"]) == (True, sent)


def test_controls_are_sent_under_the_names_of_the_dialect() -> None:
    asked = replace(REQUEST, sampling=Sampling(repetition_penalty=1.5))
    assert body(asked, "m", DIALECTS["llamacpp"])["repeat_penalty"] == 1.5
    with pytest.raises(EngineFault, match="cannot be told repetition_penalty"):
        body(asked, "m", PLAIN)
    assert PLAIN.controls == {*STANDARD, "guide", "stop", "logprobs", "top_logprobs", "images", "lora"}
    assert VLLM.controls - PLAIN.controls == {"top_k", "min_p", "repetition_penalty", "ignore_eos"}


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
            Guide(GuideKind.JSON_SCHEMA, "{}", "person", description="Who.", strict=False),
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


def delta(**members: Any) -> Object:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": None}]}


def call(index: int | None, arguments: str | None = None, **others: Any) -> Object:
    function = {name: value for name, value in (("name", others.pop("name", None)), ("arguments", arguments)) if value}
    return delta(tool_calls=[others | {"function": function} | ({} if index is None else {"index": index})])


def end(reason: str) -> Object:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": None}


def read(*chunks: Object) -> tuple[list[Segment], EngineChunk]:
    reader = ChunkReader()
    segments = [segment for chunk in chunks if (one := reader.read(chunk)) for segment in one.segments]
    last = reader.finish()
    return [*segments, *last.segments], last


def test_reasoning_is_read_under_either_member_name() -> None:
    for name in ("reasoning_content", "reasoning"):
        chunks = (
            delta(role="assistant", content=""),
            delta(**{name: "Let me", "content": None}),
            delta(**{name: " see.\n"}),
            delta(content="\nParis"),
            delta(content="."),
            end("stop"),
        )
        segments, last = read(*chunks)
        assert segments == [Reasoning("Let me"), Reasoning(" see."), Text("Paris"), Text(".")]
        assert last.finish is FinishReason.STOP


def test_calls_in_pieces_of_vllm_are_assembled() -> None:
    segments, last = read(
        delta(content="One moment. "),
        call(0, id="call_a", name="f", type="function"),
        call(0, '{"x": '),
        call(0, "1}"),
        call(1, "", id="call_b", name="g", type="function"),
        call(1, "{}"),
        end("tool_calls"),
    )
    assert segments == [
        Text("One moment."),
        CallBegin("f", "call_a"),
        Arguments('{"x": '),
        Arguments("1}"),
        CallEnd(is_complete=True),
        CallBegin("g", "call_b"),
        Arguments("{}"),
        CallEnd(is_complete=True),
    ]
    assert last.finish is FinishReason.STOP


def test_whole_calls_without_an_index_are_read() -> None:
    segments, _ = read(call(None, '{"x":1}', name="f"), call(None, '{"y":2}', name="g"), end("stop"))
    assert segments == [
        CallBegin("f"),
        Arguments('{"x":1}'),
        CallEnd(is_complete=True),
        CallBegin("g"),
        Arguments('{"y":2}'),
        CallEnd(is_complete=True),
    ]


TWO_CALLS = [
    CallBegin("f", "call_a"),
    Arguments('{"x":1}'),
    CallEnd(is_complete=True),
    CallBegin("f", "call_b"),
    Arguments('{"y":2}'),
    CallEnd(is_complete=True),
]


@pytest.mark.parametrize("index", [{}, {"index": None}, {"index": 0}], ids=["absent", "null", "zero"])
def test_new_id_with_a_name_begins_a_call_under_any_index(index: Object) -> None:
    pieces = (("call_a", '{"x":1}'), ("call_b", '{"y":2}'))
    calls = [{"id": id_, "function": {"name": "f", "arguments": text}} | index for id_, text in pieces]
    assert read(*(delta(tool_calls=[each]) for each in calls), end("stop"))[0] == TWO_CALLS
    assert read(delta(tool_calls=calls), end("stop"))[0] == TWO_CALLS


def test_calls_without_ids_under_one_index_differ_by_their_names() -> None:
    segments, _ = read(call(0, '{"x":1}', name="f"), call(0, "{}", name="g"), end("stop"))
    assert [each.name for each in segments if isinstance(each, CallBegin)] == ["f", "g"]
    assert segments.count(CallEnd(is_complete=True)) == 2


def test_two_whole_calls_of_one_function_without_ids_stay_two_calls() -> None:
    segments, _ = read(call(0, '{"x":', name="f"), call(0, "1}", name="f"), call(0, '{"y":2}', name="f"), end("stop"))
    x, y = [Arguments('{"x":'), Arguments("1}")], [Arguments('{"y":2}')]
    assert segments == [CallBegin("f"), *x, CallEnd(is_complete=True), CallBegin("f"), *y, CallEnd(is_complete=True)]


@pytest.mark.parametrize("last", ["", None])
def test_last_piece_that_only_repeats_the_name_begins_no_call(last: str | None) -> None:
    segments, _ = read(call(0, '{"x":1}', name="f"), call(0, last, name="f"), end("stop"))
    assert segments == [CallBegin("f"), Arguments('{"x":1}'), CallEnd(is_complete=True)]


def test_long_call_whose_pieces_repeat_the_name_is_read_in_linear_time() -> None:
    reader, pieces = ChunkReader(), [call(0, '{"x":"', name="f"), *[call(0, "some words ", name="f")] * 20_000]
    begun_s = thread_time()
    for each in pieces:
        reader.read(each)
    assert thread_time() - begun_s < 1  # 0.03 s; 1.5 s where each piece parsed all of them


@pytest.mark.parametrize(
    ("name", "following"),
    [
        ("", {}),
        ("", {"index": None}),
        ("", {"index": 0}),
        ("", {"id": "", "index": 0}),
        ("f", {"index": 0}),
        ("f", {"id": "call_a"}),
        ("f", {"id": "call_a", "index": 0}),
    ],
)
def test_piece_that_repeats_or_omits_id_and_name_continues_its_call(name: str, following: Object) -> None:
    first = {"id": "call_a", "function": {"name": "f", "arguments": '{"x":'}, "index": 0}
    piece = following | {"function": {"name": name, "arguments": "1}"}}
    segments, _ = read(delta(tool_calls=[first]), delta(tool_calls=[piece]), end("stop"))
    assert segments == [CallBegin("f", "call_a"), Arguments('{"x":'), Arguments("1}"), CallEnd(is_complete=True)]


@pytest.mark.parametrize("index", [{}, {"index": None}, {"index": 0}])
def test_arguments_without_a_call_are_a_fault(index: Object) -> None:
    piece = {"function": {"arguments": "{}"}} | index
    with pytest.raises(EngineFault, match="mixed up"):
        ChunkReader().read(delta(tool_calls=[piece]))
    with pytest.raises(EngineFault, match="mixed up"):
        read(call(None, "{", name="f"), delta(content="text"), delta(tool_calls=[piece]))


def test_piece_without_name_and_arguments_is_ignored() -> None:
    metadata = delta(tool_calls=[{"index": 1, "extra_content": {"google": {"thought_signature": "x"}}}])
    segments, _ = read(metadata, call(0, "{}", id="call_a", name="f"), metadata, end("stop"))
    assert segments == [CallBegin("f", "call_a"), Arguments("{}"), CallEnd(is_complete=True)]


@pytest.mark.parametrize("arguments", ["", None, " "])
def test_call_without_arguments_gets_an_empty_object(arguments: str | None) -> None:
    first, second = (call(index, arguments, id=f"call_{name}", name=name) for index, name in enumerate("fg"))
    segments, _ = read(first, second, end("tool_calls"))
    assert [each for each in segments if isinstance(each, CallBegin | CallEnd)] == [
        *(CallBegin("f", "call_f"), CallEnd(is_complete=True)),
        *(CallBegin("g", "call_g"), CallEnd(is_complete=True)),
    ]
    written = "".join(each.text for each in segments if isinstance(each, Arguments))
    assert written.replace(" ", "") == "{}{}"


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_call_cut_off_before_its_arguments_is_incomplete(reason: str) -> None:
    segments, _ = read(call(0, name="f"), end(reason))
    assert segments == [CallBegin("f"), CallEnd(is_complete=False)]


def test_call_cut_off_by_the_length_is_incomplete() -> None:
    segments, last = read(call(0, '{"x": ', name="f"), end("length"))
    assert segments[-1] == CallEnd(is_complete=False)
    assert last.finish is FinishReason.LENGTH


def test_arguments_for_a_finished_call_are_a_fault() -> None:
    reader = ChunkReader()
    reader.read(call(0, "{", name="f"))
    reader.read(call(1, "{", name="g"))
    with pytest.raises(EngineFault, match="mixed up"):
        reader.read(call(0, "}"))


def test_usage_chunk_is_read_in_all_dialects() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    _, last = read(delta(content="a"), end("stop"), {"choices": [], "usage": usage})
    assert usage_in(last) == Usage(5, 7, reasoning_tokens=3, cached_tokens=4)
    _, last = read(end("stop"), {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}})
    assert usage_in(last) == Usage(5, 7)
    sglang = {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": None, "reasoning_tokens": 2}
    _, last = read(end("stop"), {"choices": [], "usage": sglang})
    assert usage_in(last) == Usage(5, 7, reasoning_tokens=2)


@pytest.mark.parametrize(
    "chunk",
    [{"choices": [7]}, {"choices": [{"delta": 7}]}, {"usage": {"prompt_tokens": 5}}, {"usage": 7}, {"choices": 7}],
)
def test_malformed_chunk_is_a_fault(chunk: Object) -> None:
    with pytest.raises(EngineFault, match="cannot be read"):
        ChunkReader().read(chunk)


def test_empty_finish_reason_does_not_end_the_output() -> None:
    reader = ChunkReader()
    reader.read(end("") | {"usage": None})
    assert not reader.is_complete
    chunk = reader.read(delta(content="Well"))
    assert chunk is not None
    assert list(chunk.segments) == [Text("Well")]
    reader.read(end("stop"))
    assert reader.finish().finish is FinishReason.STOP


@pytest.mark.parametrize("reason", ["stop_sequence", "eos_token"])
def test_finish_reasons_of_text_generation_inference_mean_stop(reason: str) -> None:
    assert read(delta(content="Well"), end(reason))[1].finish is FinishReason.STOP


def test_finish_reason_abort_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="broke off the generation: abort"):
        ChunkReader().read(end("abort"))


def test_output_that_a_filter_broke_off_has_that_finish_reason() -> None:
    segments, last = read(delta(content="Well"), end("content_filter"))
    assert (segments, last.finish) == ([Text("Well")], FinishReason.CONTENT_FILTER)
