"""The chunks have the forms of vLLM, SGLang and llama.cpp, and forms that people reported of other servers."""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object, dumps, loads
from antiphon_translator.engines import chat_stream
from antiphon_translator.engines.chat_stream import ChunkReader
from antiphon_translator.generation import ChatChunk, FinishReason, ReportedUsage
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from tests.support.chat_streams import items_of, read, read_by
from tests.support.chunks import usage_in
from tests.support.unread import NotedParts
from tests.support.unreadable import spoil


def delta(**members: Any) -> Object:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": None}]}


def call(index: int | None, arguments: str | None = None, **others: Any) -> Object:
    function = {name: value for name, value in (("name", others.pop("name", None)), ("arguments", arguments)) if value}
    return delta(tool_calls=[others | {"function": function} | ({} if index is None else {"index": index})])


def call_of(chunk: Object) -> Object:
    """The piece of a call in a chunk, to be put into another."""
    (piece,) = chunk["choices"][0]["delta"]["tool_calls"]
    return dict(piece)


def end(reason: str) -> Object:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": None}


def unread_in(*chunks: Object) -> tuple[list[Segment], list[str]]:
    """The segments of a stream, and the kinds of its unread parts."""
    unread = NotedParts()
    return read_by(ChunkReader(unread), *chunks, end("stop"))[0], unread.parts


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
    reader, pieces = (
        ChunkReader(NotedParts()),
        [call(0, '{"x":"', name="f"), *[call(0, "some words ", name="f")] * 20_000],
    )
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
def test_arguments_without_any_name_become_text(index: Object) -> None:
    piece = {"function": {"arguments": '{"x":1}'}} | index
    assert unread_in(delta(tool_calls=[piece])) == ([Text('{"x":1}')], ["tool_calls"])


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


def test_usage_chunk_is_read_in_all_dialects() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    _, last = read(delta(content="a"), end("stop"), {"choices": [], "usage": usage})
    assert usage_in(last) == ReportedUsage(5, 7, reasoning_tokens=3, cached_tokens=4)
    _, last = read(end("stop"), {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}})
    assert usage_in(last) == ReportedUsage(5, 7)
    sglang = {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": None, "reasoning_tokens": 2}
    _, last = read(end("stop"), {"choices": [], "usage": sglang})
    assert usage_in(last) == ReportedUsage(5, 7, reasoning_tokens=2)


def test_empty_finish_reason_does_not_end_the_output() -> None:
    reader = ChunkReader(NotedParts())
    reader.read(end("") | {"usage": None})
    assert not reader.is_complete
    chunk = reader.read(delta(content="Well"))
    assert chunk is not None
    assert list(chunk.segments) == [Text("Well")]
    reader.read(end("stop"))
    assert reader.finish().finish is FinishReason.STOP


def test_output_that_a_filter_broke_off_has_that_finish_reason() -> None:
    segments, last = read(delta(content="Well"), end("content_filter"))
    assert (segments, last.finish) == ([Text("Well")], FinishReason.CONTENT_FILTER)


# ---- Calls in any order of their pieces ----


def header(index: int | None, name: str, arguments: str = "") -> Object:
    return call(index, arguments, id=f"call_{name}", name=name)


CALL_F, CALL_G = ("call", "f", '{"a":1}'), ("call", "g", '{"a":2}')


@pytest.mark.parametrize(
    "chunks",
    [
        [header(0, "f"), header(1, "g"), call(0, '{"a":1}'), call(1, '{"a":2}')],
        [header(0, "f", '{"a"'), header(1, "g", '{"a"'), call(1, ":2}"), call(0, ":1}")],
        [header(0, "f"), header(1, "g"), delta(tool_calls=[call_of(call(0, '{"a":1}')), call_of(call(1, '{"a":2}'))])],
        [header(0, "f"), call(0, '{"a":1}'), header(1, "g"), call(0, ""), call(1, '{"a":2}'), call(0, " ")],
        [header(0, "f", "{}"), header(1, "g", "{}"), call(0, '{"a":1}'), call(1, '{"a":2}')],
        [call(0, '{"a"', id="call_f"), call(0, ":1}", name="f"), header(1, "g", '{"a":2}')],
        [call(0, id="call_f"), call(0, '{"a":1}', name="f"), header(1, "g", '{"a":2}')],
        [header(None, "f", '{"a"'), call(0, ":1}"), header(None, "g", '{"a":2}')],
        [header(None, "f", '{"a"'), call(None, ":1}", name="f"), header(None, "g", '{"a":2}')],
        [header(0, "f", '{"a"'), call(1, ":1}", id="call_f"), header(2, "g", '{"a":2}')],
        [header(0, "f", '{"a":1}'), header(1, "g", '{"a":2}'), header(0, "f", '{"a":1}')],
        [header(0, "f", '{"a":1}'), header(0, "g"), call(1, '{"a"'), call(1, ":2}")],
        [header(0, "f"), header(1, "g"), call(0, '{"a":2}', id="call_g"), call(1, '{"a":1}', id="call_f")],
        [header(0, "f"), header(1, "g"), call(0, '{"a":1}', id="x"), call(1, '{"a":2}', id="y")],
    ],
    ids=[
        *("headers first", "pieces crossed", "pieces of two calls in one delta", "blank pieces late"),
        *("an empty object first", "the name after the arguments", "the id alone first", "an index after the first"),
        *("no index and names repeated", "the index counts pieces", "a call repeated whole", "the first index wrong"),
        *("the id right and the index wrong", "another id in each piece"),
    ],
)
def test_two_calls_are_read_from_any_order_of_their_pieces(chunks: list[Object]) -> None:
    assert items_of(read(*chunks, end("tool_calls"))[0]) == [CALL_F, CALL_G]


@given(st.data())
def test_items_do_not_depend_on_how_the_pieces_of_calls_are_interleaved(data: st.DataObject) -> None:
    written = data.draw(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=8)), min_size=1, max_size=4))
    queues = [
        [header(index, f"tool{index}"), *(call(index, piece) for piece in cut(data, dumps(each).decode()))]
        for index, each in enumerate(written)
    ]
    heads = [queue.pop(0) for queue in queues] if data.draw(st.booleans()) else []
    order, chunks = [*range(len(heads))], heads
    while any(queues):
        index = data.draw(st.sampled_from([index for index, queue in enumerate(queues) if queue]))
        order += [index] if index not in order else []
        chunks.append(queues[index].pop(0))
        if data.draw(st.integers(0, 4)) == 0:
            chunks.append(delta(content=data.draw(st.sampled_from(["", "\n"]))))
    segments, _ = read(*chunks, end("tool_calls"))
    calls = [("call", f"tool{index}", dumps(written[index]).decode()) for index in order]
    assert [item for item in items_of(segments) if item[0] != "text"] == calls


def cut(data: st.DataObject, text: str) -> list[str]:
    """A text in pieces."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[begin:stop] for begin, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def test_call_is_not_ended_before_its_arguments_are_whole() -> None:
    reader = ChunkReader(NotedParts())
    chunks = [header(0, "f"), header(1, "g", '{"b":2}'), delta(content="So"), call(0, '{"a":')]
    segments = [segment for chunk in chunks if (one := reader.read(chunk)) for segment in one.segments]
    assert segments == [CallBegin("f", "call_f"), Arguments('{"a":')]
    ended = reader.read(call(0, "1}"))
    assert ended is not None
    assert items_of([*segments, *ended.segments]) == [CALL_F, ("call", "g", '{"b":2}'), ("text", "So")]


def test_text_and_reasoning_between_the_pieces_of_a_call_follow_it() -> None:
    chunks = (header(0, "f", '{"a"'), delta(content="hm"), delta(reasoning="why"), call(0, ":1}"), delta(content=" so"))
    items = [CALL_F, ("text", "hm"), ("reasoning", "why"), ("text", "so")]
    assert items_of(read(*chunks, end("stop"))[0]) == items


@pytest.mark.parametrize(
    "pieces", [["get_", "weather"], ["get", "_weather"], ["get_", "get_weather"], ["get_weather"] * 2]
)
def test_name_may_come_in_pieces_or_be_repeated(pieces: list[str]) -> None:
    first, *others = pieces
    chunks = [header(0, first), *(call(0, name=other) for other in others), call(0, '{"a":1}')]
    assert items_of(read(*chunks, end("tool_calls"))[0]) == [("call", "get_weather", '{"a":1}')]


@pytest.mark.parametrize("id_", [{}, {"id": ""}])
def test_two_offered_names_under_one_index_are_two_calls_without_arguments(id_: Object) -> None:
    assert items_of(read(call(0, name="f", **id_), call(0, name="g", **id_), end("stop"))[0]) == [
        ("call", "f", "{}"),
        ("call", "g", "{}"),
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": 1}, '{"a":1}'),
        ([], "{}"),
        ({}, "{}"),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ("null", "{}"),
        ("[]", "{}"),
        ({"a": "ü"}, '{"a":"ü"}'),
    ],
)
def test_arguments_may_be_an_object_or_text_within_text(arguments: object, expected: str) -> None:
    piece = {"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}
    assert items_of(read(delta(tool_calls=[piece]), end("tool_calls"))[0]) == [("call", "f", expected)]
    assert items_of(read(delta(tool_calls=piece), end("tool_calls"))[0]) == [("call", "f", expected)]


def test_call_that_is_no_object_is_broken_and_stays() -> None:
    for arguments in ('{"a":1}{"a":2}', '"text"', "7", '{"a":'):
        segments, _ = read(header(0, "f", arguments), header(1, "g", '{"a":2}'), end("tool_calls"))
        assert items_of(segments) == [("broken call", "f", arguments), CALL_G]


def test_arguments_behind_a_call_that_was_passed_on_are_reported() -> None:
    segments, parts = unread_in(header(0, "f", '{"a":1}'), delta(content="So"), call(0, ',"b":2}'))
    assert (items_of(segments), parts) == ([CALL_F, ("text", "So")], ["tool_calls"])
    assert unread_in(header(0, "f", '{"a":1}'), delta(content="So"), header(0, "f", '{"a":1}'))[1] == []


def test_function_calls_of_the_old_form_and_of_custom_tools_are_read() -> None:
    legacy = [delta(function_call={"name": "f", "arguments": '{"a"'}), delta(function_call={"arguments": ":1}"})]
    assert items_of(read(*legacy, end("function_call"))[0]) == [CALL_F]
    custom = delta(tool_calls=[{"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}])
    assert items_of(read(custom, end("tool_calls"))[0]) == [("call", "f", '{"input":"x"}')]


def test_output_behind_a_call_that_never_becomes_whole_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_stream, "ENGINE_TEXT_BYTES_MAX", 10 + chat_stream.WAITING_PIECE_CHARS)
    reader = ChunkReader(NotedParts())
    reader.read(header(0, "f", '{"a":' + "1" * 100))
    with pytest.raises(EngineFault, match="did not complete"):
        reader.read(delta(content="x" * 11))


def test_many_whole_calls_in_one_message_are_read_without_recursion() -> None:
    calls = [call_of(call(index, '{"a":1}', id=f"call_{index}", name="f")) for index in range(1, 3_000)]
    chunks = (header(0, "f"), delta(tool_calls=calls), call(0, '{"a":1}'), end("stop"))
    assert items_of(read(*chunks)[0]) == [CALL_F] * 3_000


# ---- Unusual forms lose nothing ----


@pytest.mark.parametrize(
    ("members", "items"),
    [
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, [("reasoning", "hm")]),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, [("text", "ab")]),
        ({"content": {"type": "text", "text": "a"}}, [("text", "a")]),
        ({"content": ["a", "b"]}, [("text", "ab")]),
        ({"content": 42}, [("text", "42")]),
        ({"reasoning": {"content": "hm"}, "content": "a"}, [("reasoning", "hm"), ("text", "a")]),
        ({"reasoning": "hm", "reasoning_content": "hm"}, [("reasoning", "hm")]),
        ({"reasoning": "", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, [("reasoning", "hm")]),
        ({"thinking": "hm"}, [("reasoning", "hm")]),
    ],
)
def test_content_and_reasoning_are_read_in_all_forms(members: Object, items: list[tuple[str, ...]]) -> None:
    assert items_of(read(delta(**members), end("stop"))[0]) == items


def test_message_and_text_are_read_in_place_of_deltas_but_not_beside_them() -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": [call_of(header(0, "f", '{"a":1}'))]}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    assert items_of(read(whole)[0]) == [("text", "Hi"), CALL_F]
    assert items_of(read(delta(content="Hi"), header(0, "f", '{"a":1}'), whole)[0]) == [("text", "Hi"), CALL_F]
    assert items_of(read(delta(content="Hi"), whole)[0]) == [("text", "Hi"), CALL_F]
    assert items_of(read({"choices": [{"text": "Hi", "finish_reason": "stop"}]})[0]) == [("text", "Hi")]
    assert items_of(read({"choices": [{"delta": "Hi"}]}, end("stop"))[0]) == [("text", "Hi")]


def test_halves_of_a_character_are_joined_over_chunks() -> None:
    for kind in ("content", "reasoning"):
        segments, _ = read(delta(**{kind: "a\ud83d"}), delta(**{kind: "\ude00b"}), end("stop"))
        assert items_of(segments) == [("text" if kind == "content" else "reasoning", "a😀b")]
    pieces = (header(0, "f", '{"a":"\ud83d'), call(0, '\ude00"}'))
    assert items_of(read(*pieces, end("stop"))[0]) == [("call", "f", '{"a":"😀"}')]
    assert items_of(read(delta(content="a\ud83d"), delta(content="b"), end("stop"))[0]) == [("text", "a�b")]
    assert items_of(read(delta(content="a\ud83d"), end("stop"))[0]) == [("text", "a�")]
    assert read(call(0, "{}", id="\ud83d", name="f"), end("stop"))[0][0] == CallBegin("f", "�")


@pytest.mark.parametrize(
    ("chunk", "part"),
    [
        ({"choices": [7]}, "choices"),
        ({"choices": 7}, "choices"),
        ({"choices": [{"delta": 7}]}, "delta"),
        (delta(content=[{"type": "image_url"}]), "content"),
        (delta(tool_calls=[7]), "tool_calls"),
        (delta(tool_calls=[{"index": 0, "function": 7}]), "tool_calls"),
        ({"usage": 7}, "usage"),
        ({"usage": {"prompt_tokens": -1}}, "usage"),
        (end("ominous"), "finish_reason"),
        ({"choices": [{"delta": {}, "finish_reason": {"type": "x"}}]}, "finish_reason"),
    ],
)
def test_what_cannot_be_read_is_reported_and_loses_nothing(chunk: Object, part: str) -> None:
    assert unread_in(delta(content="Well"), chunk, delta(content=" done")) == ([Text("Well"), Text(" done")], [part])


def test_text_behind_the_finish_reason_is_read() -> None:
    assert items_of(read(delta(content="a"), end("stop"), delta(content="b"))[0]) == [("text", "ab")]


@pytest.mark.parametrize("last", [{"choices": [], "usage": {"completion_tokens": 5}}, None], ids=["usage", "done"])
def test_stream_that_ends_without_a_finish_reason_has_ended_if_it_has_an_answer(last: Object | None) -> None:
    def end_of(reader: ChunkReader) -> bool:
        if last is None:
            reader.note_done()
        else:
            reader.read(last)
        return reader.is_complete

    assert not end_of(ChunkReader(NotedParts()))
    reader = ChunkReader(unread := NotedParts())
    reader.read(delta(content="Hi"))
    assert not reader.is_complete
    assert end_of(reader)
    assert reader.finish().finish is None
    assert unread.parts == ["finish_reason"]


def test_usage_and_finish_reason_are_read_where_other_servers_put_them() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 7}
    moonshot = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]}
    groq = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "x_groq": {"id": "r", "usage": usage}}
    for last in (moonshot, groq):
        assert usage_in(read(delta(content="Hi"), last)[1]) == ReportedUsage(5, 7)
    gemini: Object = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finishReason": "MAX_TOKENS"}]}
    assert read(gemini)[1].finish is FinishReason.LENGTH


STREAM = [
    delta(role="assistant", content="", reasoning="Let me see."),
    delta(content="One moment."),
    header(0, "f", '{"a"'),
    call(0, ":1}"),
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
    end("tool_calls"),
]
ANSWER = [("reasoning", "Let me see."), ("text", "One moment."), CALL_F]


@given(st.data())
def test_one_unreadable_member_anywhere_loses_nothing_of_the_answer(data: st.DataObject) -> None:
    chunks = loads(dumps(STREAM))
    spoil(chunks, data)
    assert items_of(read(*chunks)[0]) == ANSWER


@pytest.mark.parametrize("texts", [("one\n\ntwo",), ("one\n", "\ntwo")])
def test_stop_text_ends_the_answer_and_not_the_reasoning_or_a_call(texts: tuple[str, ...]) -> None:
    reader = ChunkReader(NotedParts(), stops=("\n\n", "x"))
    thought = (delta(reasoning_content="x\n\ny"), delta(content="\n\n"))
    read_chunks = [reader.read(each) for each in (*thought, *(delta(content=text) for text in texts))]
    assert [each.finish for each in read_chunks if each] == [None, *[None] * (len(texts) - 1), FinishReason.STOP]
    assert [each for one in read_chunks if one for each in one.segments] == [Reasoning("x\n\ny"), Text("one")]
    assert reader.read(call(0, '{"x": 1}', name="f", id="c")) == ChatChunk(finish=FinishReason.STOP, segments=[])


def test_stop_text_in_a_call_is_an_argument() -> None:
    reader = ChunkReader(NotedParts(), names=("f",), stops=("x",))
    segments, _ = read_by(reader, call(0, '{"x": 1}', name="f", id="c"), end("tool_calls"))
    assert segments[-1] == CallEnd(is_complete=True)


def test_arguments_that_repeat_a_finished_call_do_not_count_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_stream, "ENGINE_TEXT_BYTES_MAX", 20)
    again = [call(0, '{"x": 1}')] * 9
    chunks = (call(0, '{"x": 1}', name="f"), call(1, "{}", name="g"), *again, end("tool_calls"))
    assert items_of(read(*chunks)[0]) == [("call", "f", '{"x": 1}'), ("call", "g", "{}")]
