from __future__ import annotations

import pytest

from antiphon_core.rpc.delivery import UNCOUNTED_BYTES_MAX
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_core.rpc.pusher import Pusher
from tests.support.fake_call import FakeCall

RESPONSE = TRANSLATOR.methods["Generate"].response
LARGE = b"x" * UNCOUNTED_BYTES_MAX
"""Frames whose message is larger."""


@pytest.mark.parametrize(
    ("answers", "pushed"),
    [
        ([{"frames": b"a"}, {"frames": b"b"}], [True, True]),
        ([{"frames": b"a"}, {"frames": LARGE}], [True, False]),
    ],
)
def test_answers_are_pushed_unless_they_count(answers: list[dict[str, bytes]], pushed: list[bool]) -> None:
    call = FakeCall()
    pusher = Pusher(call.call, RESPONSE)
    assert [pusher.push(RESPONSE.message(**answer)) for answer in answers] == pushed
    assert len(call.sent) == sum(pushed)


def test_answer_is_not_pushed_while_another_waits() -> None:
    call = FakeCall(reads=False)
    pusher = Pusher(call.call, RESPONSE)
    assert [pusher.push(RESPONSE.message(count=number)) for number in (1, 2)] == [True, False]
    assert len(call.sent) == 1


def test_answer_that_cannot_be_serialized_is_left_to_the_handler() -> None:
    call = FakeCall()
    assert not Pusher(call.call, RESPONSE).push("no message")
    assert call.sent == []
