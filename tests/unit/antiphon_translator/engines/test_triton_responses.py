from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.limits import ENGINE_IDLE_BYTES_MAX
from antiphon_translator.engines.text_growth import Growth
from antiphon_translator.engines.token_timeouts import TokenTimer
from antiphon_translator.engines.triton_responses import MESSAGE_BYTES, TritonResponses
from antiphon_translator.engines.triton_text import TextReader
from antiphon_translator.engines.triton_tokens import TokensReader
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    TextChunk,
    TextPrompt,
    TokenChunk,
    TokenPrompt,
)
from tests.support.chunks import only
from tests.support.fake_triton import error_response, final_response, response, token_response
from tests.support.pushed import Deliveries

GRACE_S = 0.25
REQUEST = GenerationRequest("r", TokenPrompt((1,)), max_tokens=10, stop_ids=(2,), stop=("END",), stop_in_reasoning=True)

TEXT_REQUEST = replace(REQUEST, prompt=TextPrompt("a"))


class Timer:
    """A token timer that records its calls."""

    def __init__(self) -> None:
        self.tokens = 0
        self.ended_within: list[float] = []

    def token_came(self) -> None:
        self.tokens += 1

    def end_within(self, seconds: float) -> None:
        self.ended_within.append(seconds)


class Generation:
    """The responses of a generation, with their deliveries and timer."""

    def __init__(self, *, most: int = 100, reader: Any = None) -> None:
        self.deliveries, self.timer = Deliveries(most), Timer()
        self.responses = TritonResponses(
            reader or TokensReader(REQUEST),
            self.deliveries,
            cast(TokenTimer, self.timer),
            model="m",
            end_grace_s=GRACE_S,
        )

    def texts(self) -> list[list[TextChunk]]:
        """The deliveries as text chunks."""
        return [only(TextChunk, chunks) for chunks in self.deliveries.received]

    def receive(self, *messages: Any) -> None:
        self.responses.receive([message.SerializeToString() for message in messages])


def test_messages_of_one_read_are_one_delivery() -> None:
    generation = Generation()
    generation.receive(token_response([5]), token_response([6, 7]))
    generation.receive(token_response([8]))
    assert generation.deliveries.received == [[TokenChunk([5]), TokenChunk([6, 7])], [TokenChunk([8])]]
    assert (generation.timer.tokens, generation.timer.ended_within) == (2, [])


def test_read_without_tokens_delivers_nothing_and_restarts_no_timeout() -> None:
    generation = Generation()
    generation.receive(token_response([]))
    assert (generation.deliveries.received, generation.timer.tokens) == ([], 0)


def test_end_after_the_final_response_is_no_error() -> None:
    generation = Generation()
    generation.receive(token_response([5]), final_response())
    generation.responses.finish()
    assert generation.responses.error is None


@pytest.mark.parametrize("messages", [[], [token_response([5])]])
def test_end_without_a_final_response_is_a_fault(messages: Sequence[Any]) -> None:
    generation = Generation()
    generation.receive(*messages)
    with pytest.raises(EngineFault, match="ended the stream before the generation"):
        generation.responses.finish()


def test_text_that_was_held_back_is_delivered_at_the_end() -> None:
    generation = Generation(reader=TextReader(TEXT_REQUEST, Growth.DELTA))
    generation.receive(response({"text_output": "One E"}), final_response())
    generation.responses.finish()
    assert [chunk.text for chunks in generation.texts() for chunk in chunks] == [
        "One ",
        "E",
    ]


@pytest.mark.parametrize(("last", "seconds"), [(9, 0), (2, GRACE_S)], ids=["before the end", "at a stop id"])
def test_after_the_last_token_only_a_complete_generation_gets_grace_time(last: int, seconds: float) -> None:
    generation = Generation(most=1)
    generation.receive(token_response([last]))
    assert generation.timer.ended_within == [seconds]
    generation.receive(token_response([5]))
    generation.responses.finish()
    assert generation.deliveries.ids == [last]


def test_chunk_with_a_finish_reason_is_the_last_delivered() -> None:
    generation = Generation(reader=TextReader(TEXT_REQUEST, Growth.DELTA))
    generation.receive(response({"text_output": "One END"}), response({"text_output": " Two"}))
    assert [[(chunk.text, chunk.finish) for chunk in chunks] for chunks in generation.texts()] == [
        [("One ", FinishReason.STOP)]
    ]
    assert (generation.responses.is_over, generation.timer.ended_within) == (True, [0])


def test_tokens_before_an_error_are_delivered_and_the_error_is_kept() -> None:
    generation = Generation()
    generation.receive(token_response([5]), error_response("Stub process 'm' is not healthy."), token_response([6]))
    assert generation.deliveries.ids == [5]
    assert isinstance(generation.responses.error, EngineUnavailable)
    assert (generation.responses.is_over, generation.timer.ended_within) == (True, [0])


def test_error_after_the_last_requested_token_is_ignored() -> None:
    generation = Generation(most=1)
    generation.receive(token_response([2]), error_response("broken"))
    assert (generation.responses.error, generation.timer.ended_within) == (None, [GRACE_S])


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\x05ab"])
def test_malformed_message_is_a_fault(garbage: bytes) -> None:
    generation = Generation()
    generation.responses.receive([token_response([5]).SerializeToString(), garbage])
    assert generation.deliveries.ids == [5]
    assert isinstance(generation.responses.error, EngineFault)


def test_exception_of_the_deliver_callback_is_kept() -> None:
    def deliver(chunks: Sequence[EngineChunk]) -> bool:
        raise ZeroDivisionError

    timer = Timer()
    responses = TritonResponses(TokensReader(REQUEST), deliver, cast(TokenTimer, timer), model="m", end_grace_s=GRACE_S)
    responses.receive([token_response([5]).SerializeToString()])
    assert isinstance(responses.error, ZeroDivisionError)
    assert timer.ended_within == [0]


@pytest.mark.parametrize("message", [b"", token_response([]).SerializeToString()], ids=["empty", "without ids"])
def test_messages_without_content_end_a_generation_at_last(message: bytes) -> None:
    generation = Generation()
    for _ in range(10 * ENGINE_IDLE_BYTES_MAX // MESSAGE_BYTES // 100):  # a slow machine earns some of them back
        generation.responses.receive([message] * 100)
    assert isinstance(generation.responses.error, EngineFault)
    assert "without any content" in str(generation.responses.error)


def test_messages_without_content_between_tokens_are_no_error() -> None:
    generation = Generation(most=10**6)
    pair = [token_response(ids).SerializeToString() for ids in ([5], [])]
    for _ in range(1_000):
        generation.responses.receive(pair * 100)
    assert generation.responses.error is None


class ParsingReader(TokensReader):
    """A reader to which no message repeats another."""

    def read_repeated(self, message: bytes) -> None:
        return None


def random_messages(chance: random.Random) -> list[bytes]:
    """The messages of a stream that mostly repeat but for their ids. Some have other outputs, no ids, wrong lengths or
    wrong bytes; some come after the final one."""
    made = list[bytes]()
    for _ in range(chance.randint(1, 40)):
        ids = [chance.randrange(3, 2**31) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        outputs: dict[str, Any] = {"sequence_length": [len(ids)], "output_ids": ids}
        if chance.random() < 0.2:
            outputs |= {chance.choice(("index", "sequence_length", "output_ids")): [chance.choice((0, 1, -1))]}
        data = response(outputs, final=chance.random() < 0.05).SerializeToString()
        if chance.random() < 0.05:
            at = chance.randrange(len(data))
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        made.append(data)
    return made


def told(reader: TokensReader, reads: Sequence[Sequence[bytes]]) -> object:
    """Returns the deliveries of a stream of these reads, and its end."""
    generation, ending = Generation(reader=reader), ""
    for messages in reads:
        generation.responses.receive(messages)
    try:
        generation.responses.finish()
    except EngineFault as error:
        ending = str(error)
    return generation.deliveries.received, str(generation.responses.error), ending, generation.timer.ended_within


def test_repeated_messages_are_read_as_the_parser_reads_them() -> None:
    request, repeats = replace(REQUEST, max_tokens=50), 0
    for seed in range(400):
        messages = random_messages(random.Random(seed))
        reads = [messages[:1], messages[1:3], messages[3:]]
        reader = CountingReader(request)
        assert told(reader, reads) == told(ParsingReader(request), reads), seed
        repeats += reader.repeats
    assert repeats > 2_000


class CountingReader(TokensReader):
    """A reader that counts the repeated messages."""

    repeats = 0

    def read_repeated(self, message: bytes) -> TokenChunk | None:
        chunk = super().read_repeated(message)
        self.repeats += chunk is not None
        return chunk


@pytest.mark.parametrize(
    ("changes", "outputs", "repeats"),
    [
        ({"top_logprobs": 0}, {"output_log_probs": [-0.5]}, 0),
        ({}, {"cached_tokens": [70]}, 1),  # the first one is parsed for its facts, the second one learned
    ],
    ids=["log probabilities", "facts"],
)
def test_messages_are_parsed_as_long_as_they_have_more_than_ids(
    changes: dict[str, Any], outputs: dict[str, Any], repeats: int
) -> None:
    reader = CountingReader(replace(REQUEST, **changes), has_facts=True)
    generation = Generation(reader=reader)
    generation.receive(*[response({"sequence_length": [1], "output_ids": [5], **outputs})] * 3)
    assert (len(generation.deliveries.ids), reader.repeats) == (3, repeats)
