from __future__ import annotations

from antiphon_core import events
from antiphon_core.errors import EngineFault, InvalidRequest
from antiphon_core.jsons import Object


def test_a_frame_has_an_event_line_a_data_line_and_a_blank_line() -> None:
    frame = events.encode({"type": "response.created", "sequence_number": 0})
    assert frame == b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n'


def test_decoding_undoes_encoding_whatever_the_text() -> None:
    log = [
        {"type": events.OUTPUT_TEXT_DELTA, "sequence_number": n, "delta": text}
        for n, text in enumerate(["plain", "two\nlines", "data: {", "\u2028 \r\n", "é😀"])
    ]
    assert events.decode(b"".join(map(events.encode, log))) == log


def test_the_cancelled_event_is_removed_for_clients() -> None:
    line = "\nevent: response.cancelled\n"
    told = events.encode({"type": events.OUTPUT_TEXT_DELTA, "delta": line}) + events.DONE_FRAME
    cancelled = events.encode({"type": events.CANCELLED, "response": {"metadata": {"a": line}}})
    assert events.for_clients(told) == events.for_clients(told + cancelled) == told
    assert events.for_clients(cancelled) == b""


def test_frames_are_cut_behind_each_blank_line() -> None:
    log: list[Object] = [{"type": events.CREATED, "text": "a\n\nb"}, {"type": events.COMPLETED}]
    frames = [events.encode(event) for event in log]
    assert events.frames_of(b"".join(frames)) == frames
    assert events.frames_of(b"") == []


def test_comments_and_the_end_marker_are_passed_over() -> None:
    assert events.decode(events.KEEP_ALIVE_FRAME + events.DONE_FRAME) == []


def test_the_error_event_can_be_read_in_both_shapes() -> None:
    event = events.error_event(7, EngineFault("gone"))
    flat = {"code": "engine_fault", "message": "gone", "param": None}
    assert event == {"type": "error", "sequence_number": 7, **flat, "error": {"type": "server_error", **flat}}


def test_an_error_event_without_a_code_has_the_type_as_code() -> None:
    event = events.error_event(0, InvalidRequest("No.", field="input"))
    assert (event["code"], event["param"], event["error"]["type"]) == (
        "invalid_request_error",
        "input",
        "invalid_request_error",
    )


def test_keep_alive_event_is_not_misled_by_the_text_of_an_event() -> None:
    sent = events.encode({"type": "a", "sequence_number": 4, "delta": "an event: x"})
    assert events.decode(events.keep_alive_event(sent)) == [{"type": "keepalive", "sequence_number": 4}]


def test_keep_alive_event_repeats_the_number_of_the_last_event() -> None:
    sent = events.encode({"type": "a", "sequence_number": 6}) + events.encode({"type": "b", "sequence_number": 7})
    assert events.decode(events.keep_alive_event(sent)) == [{"type": "keepalive", "sequence_number": 7}]
    assert events.keep_alive_event(b"") == events.KEEP_ALIVE_FRAME
