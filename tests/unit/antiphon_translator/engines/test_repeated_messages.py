from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from antiphon_translator.engines import repeated_messages
from antiphon_translator.engines.repeated_messages import RepeatedMessages
from antiphon_translator.engines.triton_wire import Outputs, parse_response
from tests.support.fake_triton import response

IDS = (0, 1, 5, 127, 128, 49_151, 2**31 - 1)


def message(ids: Sequence[int], **outputs: Any) -> bytes:
    return bytes(response({"sequence_length": [len(ids)], "output_ids": ids, **outputs}).SerializeToString())


class Parser:
    """Reads ids as the reader of a stream does, and counts the messages."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, data: bytes) -> Sequence[int] | None:
        self.count += 1
        return Outputs().numbers(parse_response(data).infer_response, "output_ids")


def learned(data: bytes, ids: Sequence[int]) -> RepeatedMessages:
    messages = RepeatedMessages()
    messages.learn(data, ids, Parser())
    return messages


@pytest.mark.parametrize("first", IDS)
@pytest.mark.parametrize("count", [1, 2, 16])
def test_message_that_differs_in_its_ids_alone_is_read(first: int, count: int) -> None:
    messages = learned(message([first] * count), [first] * count)
    chance = random.Random(first)
    for _ in range(20):
        ids = [chance.choice(IDS) for _ in range(count)]
        assert messages.ids_in(message(ids)) == ids


def test_message_of_another_length_is_learned_beside_the_first() -> None:
    messages = learned(message([5]), [5])
    assert messages.ids_in(message([5, 6])) is None
    messages.learn(message([5, 6]), [5, 6], Parser())
    assert (messages.ids_in(message([7])), messages.ids_in(message([8, 9]))) == ([7], [8, 9])


@pytest.mark.parametrize("at", range(len(message([5]))))
def test_any_other_byte_that_differs_needs_the_parser(at: int) -> None:
    data = message([5])
    messages = learned(data, [5])
    changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    found = messages.ids_in(changed)
    if found is not None:
        assert found == Parser()(changed) != [5]


def test_negative_id_needs_the_parser() -> None:
    assert learned(message([5]), [5]).ids_in(message([-1])) is None


def test_ids_that_other_outputs_repeat_are_found() -> None:
    messages = learned(message([1], batch_index=[1], index=[1]), [1])
    assert messages.ids_in(message([9], batch_index=[1], index=[1])) == [9]
    assert messages.ids_in(message([1], batch_index=[9], index=[1])) is None


def _unknown(data: bytes) -> None:
    return None


@pytest.mark.parametrize(
    ("data", "read_ids"),
    [(message([0], zeros=[0] * 20), _unknown), (message([5], text="x" * 5_000), Parser()), (b"none", Parser())],
    ids=["found nowhere", "long", "without its ids"],
)
def test_message_whose_form_cannot_be_told_is_not_learned(data: bytes, read_ids: Callable[[bytes], Any]) -> None:
    messages = RepeatedMessages()
    messages.learn(data, [0] if read_ids is _unknown else [5], read_ids)
    assert messages.ids_in(data) is None


def test_learning_is_bounded() -> None:
    messages, parser = RepeatedMessages(), Parser()
    for length in range(1, 100):
        messages.learn(message([5] * length), [5] * length, parser)
    most = repeated_messages.LEARNED_MAX
    assert most <= parser.count <= most * repeated_messages.PLACES_MAX
    assert messages.ids_in(message([6] * (most + 1))) is None
