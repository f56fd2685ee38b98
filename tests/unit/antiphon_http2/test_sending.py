from __future__ import annotations

import pytest

from antiphon_http2.frames import FRAME_HEADER, ConnectionFault
from antiphon_http2.sending import Sender

PLENTY = 2**30


def sent(sender: Sender, bytes_max: int = PLENTY) -> list[tuple[int, bytes, bool]]:
    """(stream, content, is last) of each frame."""
    pieces = list(sender.frames(bytes_max))
    frames = []
    for header, content in zip(pieces[::2], pieces[1::2], strict=True):
        high, low, _kind, flags, stream_id = FRAME_HEADER.unpack(header)
        assert high << 8 | low == len(content)
        frames.append((stream_id, bytes(content), bool(flags)))
    return frames


def sender(*, connection: int = 2**20, stream: int = 2**20, frame: int = 16_384) -> Sender:
    made = Sender()
    made.credit_connection(connection - 65_535)
    made.set_initial_window(stream)
    made.frame_bytes_max = frame
    return made


def test_body_goes_in_frames_of_the_peers_size() -> None:
    subject = sender(frame=4)
    subject.add(1, b"0123456789")
    assert sent(subject) == [(1, b"0123", False), (1, b"4567", False), (1, b"89", True)]
    assert sent(subject) == []


def test_frames_of_several_bodies_take_turns() -> None:
    subject = sender(frame=2)
    subject.add(1, b"aaaaaa")
    subject.add(3, b"bb")
    subject.add(5, b"ccc")
    assert [frame[0] for frame in sent(subject)] == [1, 3, 5, 1, 5, 1]


def test_body_waits_for_the_window_of_its_stream_and_no_other_does() -> None:
    subject = sender(stream=3)
    subject.add(1, b"aaaaa")
    subject.add(3, b"bbb")
    assert sent(subject) == [(1, b"aaa", False), (3, b"bbb", True)]
    subject.credit(1, 1)
    assert sent(subject) == [(1, b"a", False)]
    subject.credit(1, 10)
    assert sent(subject) == [(1, b"a", True)]


def test_all_bodies_wait_for_the_window_of_the_connection() -> None:
    subject = sender(connection=4)
    subject.add(1, b"aaa")
    subject.add(3, b"bbb")
    assert sent(subject) == [(1, b"aaa", True), (3, b"b", False)]
    subject.credit_connection(5)
    assert sent(subject) == [(3, b"bb", True)]


def test_burst_stops_at_its_size_and_continues_later() -> None:
    subject = sender(frame=4)
    subject.add(1, b"0123456789")
    assert sent(subject, 5) == [(1, b"0123", False), (1, b"4567", False)]
    assert sent(subject, 5) == [(1, b"89", True)]


def test_smaller_initial_window_stops_streams_that_are_open() -> None:
    subject = sender(stream=4, frame=2)
    subject.add(1, b"aaaaaaaa")
    assert len(sent(subject, 1)) == 1
    subject.set_initial_window(1)  # three less: one byte beyond the window was sent
    assert sent(subject) == []
    subject.credit(1, 1)
    assert sent(subject) == []
    subject.set_initial_window(2)
    assert sent(subject) == [(1, b"a", False)]


def test_larger_initial_window_lets_open_streams_go_on() -> None:
    subject = sender(stream=0)
    subject.add(1, b"aa")
    assert sent(subject) == []
    subject.set_initial_window(5)
    assert sent(subject) == [(1, b"aa", True)]


def test_dropped_body_is_not_sent() -> None:
    subject = sender(frame=1)
    subject.add(1, b"aa")
    subject.add(3, b"b")
    assert sent(subject, 1) == [(1, b"a", False)]
    assert subject.drop(1)
    assert sent(subject) == [(3, b"b", True)]
    assert not subject.drop(3)
    assert not subject.drop(1)


def test_credit_for_a_body_that_was_sent_is_ignored() -> None:
    subject = sender()
    subject.add(1, b"a")
    sent(subject)
    subject.credit(1, 2**31 - 1)
    assert sent(subject) == []


def test_window_beyond_its_limit_is_a_fault() -> None:
    subject = sender()
    subject.add(1, b"a")
    with pytest.raises(ConnectionFault):
        subject.credit(1, 2**31 - 1)
    with pytest.raises(ConnectionFault):
        subject.credit_connection(2**31 - 1)
    subject = sender()
    subject.add(1, b"a")
    subject.credit(1, 1)
    with pytest.raises(ConnectionFault):
        subject.set_initial_window(2**31 - 1)
