from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from antiphon_core.errors import EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.limits import ENGINE_SLICE_CHARS_MAX, ENGINE_SLICE_ITEMS_MAX
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    EngineFacts,
    FinishReason,
    ReportedUsage,
    TextChunk,
    TokenChunk,
    TokenLogprob,
)
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from antiphon_translator.sliced_delivery import SlicedDelivery, slices
from tests.support.chunks import only

LARGE = TextChunk("ab" * ENGINE_SLICE_CHARS_MAX)


class Receiver:
    def __init__(self, *, wanted: int = 1_000, error: Exception | None = None) -> None:
        self.texts: list[str] = []
        self.calls = 0
        self._wanted = wanted
        self._error = error

    def __call__(self, chunks: Sequence[EngineChunk]) -> bool:
        self.calls += 1
        self.texts += [chunk.text for chunk in only(TextChunk, chunks)]
        if self._error is not None:
            raise self._error
        return len(self.texts) < self._wanted


async def test_small_chunks_are_delivered_immediately() -> None:
    flow, receiver = Flow(), Receiver(wanted=2)
    sliced = SlicedDelivery(receiver, flow)
    async with sliced.running():
        assert sliced.take([TextChunk("a")])
        assert receiver.texts == ["a"]
        assert not sliced.take([TextChunk("b")])
        assert not flow.is_paused


async def test_large_chunk_is_delivered_in_slices_while_the_flow_is_paused() -> None:
    flow, receiver = Flow(), Receiver()
    sliced = SlicedDelivery(receiver, flow)
    async with sliced.running():
        assert sliced.take([LARGE])
        assert sliced.take([TextChunk("c")])
        assert flow.is_paused
        assert receiver.texts == []
    assert [len(text) for text in receiver.texts] == [ENGINE_SLICE_CHARS_MAX, ENGINE_SLICE_CHARS_MAX, 1]
    assert not flow.is_paused


async def test_many_small_chunks_of_one_read_are_sliced_together() -> None:
    receiver = Receiver()
    sliced = SlicedDelivery(receiver, Flow())
    async with sliced.running():
        sliced.take([TextChunk("a" * (ENGINE_SLICE_CHARS_MAX // 2))] * 5)
        assert receiver.calls == 0
    assert len(receiver.texts) == 5
    assert receiver.calls == 3


async def test_generation_ends_with_the_slice_that_completes_the_output() -> None:
    receiver = Receiver(wanted=1)
    sliced = SlicedDelivery(receiver, Flow())
    async with sliced.running():
        sliced.take([LARGE])
        await asyncio.Event().wait()  # an engine without an end
    assert len(receiver.texts) == 1
    assert not sliced.take([TextChunk("d" * ENGINE_SLICE_CHARS_MAX)])


async def test_slices_are_delivered_before_the_failure_of_the_generation() -> None:
    receiver = Receiver()
    sliced = SlicedDelivery(receiver, Flow())
    with pytest.raises(EngineUnavailable):
        async with sliced.running():
            sliced.take([LARGE])
            raise EngineUnavailable("gone")
    assert len(receiver.texts) == 2


async def test_error_during_a_slice_is_raised_in_the_generation() -> None:
    sliced = SlicedDelivery(Receiver(error=EngineUnavailable("bad")), Flow())
    with pytest.raises(EngineUnavailable, match="bad"):
        async with sliced.running():
            sliced.take([LARGE])
            await asyncio.Event().wait()


async def test_cancelled_generation_delivers_no_slices_and_resumes_the_flow() -> None:
    flow, receiver = Flow(), Receiver()
    sliced = SlicedDelivery(receiver, flow)

    async def generate() -> None:
        async with sliced.running():
            sliced.take([LARGE])
            raise asyncio.CancelledError

    await asyncio.gather(asyncio.ensure_future(generate()), return_exceptions=True)
    await asyncio.sleep(0)
    assert receiver.texts == []
    assert not flow.is_paused


async def test_timeout_raised_by_the_generation_is_kept() -> None:
    sliced = SlicedDelivery(Receiver(), Flow())
    with pytest.raises(TimeoutError):
        async with sliced.running():
            raise TimeoutError


def test_slices_keep_all_ids_in_order_and_the_finish_reason_last() -> None:
    ids = list(range(2 * ENGINE_SLICE_ITEMS_MAX + 1))
    scores = [TokenLogprob(each, -1.0) for each in ids]
    parts = only(TokenChunk, slices(TokenChunk(ids, FinishReason.STOP, logprobs=scores)))
    assert [each for part in parts for each in part.ids] == ids
    assert [each for part in parts for each in part.logprobs] == scores
    assert all(len(part.ids) == len(part.logprobs) <= ENGINE_SLICE_ITEMS_MAX for part in parts)
    assert [part.finish for part in parts] == [None, None, FinishReason.STOP]


def test_slices_keep_all_segments_and_the_usage_last() -> None:
    segments = [Text(str(each)) for each in range(ENGINE_SLICE_ITEMS_MAX + 1)]
    parts = only(ChatChunk, slices(ChatChunk(segments, usage=ReportedUsage(1, 2))))
    assert [each for part in parts for each in part.segments] == segments
    assert [part.usage for part in parts] == [None, ReportedUsage(1, 2)]


@pytest.mark.parametrize("kind", [Text, Reasoning, Arguments])
def test_long_text_of_a_segment_is_cut(kind: type[Text | Reasoning | Arguments]) -> None:
    text = "ab" * ENGINE_SLICE_CHARS_MAX + "c"
    segments: list[Segment] = [CallBegin("f"), kind(text), CallEnd(True)]
    parts = only(ChatChunk, slices(ChatChunk(segments, FinishReason.STOP)))
    begin, *pieces, end = (each for part in parts for each in part.segments)
    assert (begin, end) == (segments[0], segments[-1])
    assert "".join(piece.text for piece in pieces if isinstance(piece, kind)) == text
    lengths = [sum(len(getattr(each, "text", "")) for each in part.segments) for part in parts]
    assert max(lengths) == ENGINE_SLICE_CHARS_MAX
    assert [part.finish for part in parts][-2:] == [None, FinishReason.STOP]


def test_slices_of_text_come_behind_their_log_probabilities() -> None:
    scores = [TokenLogprob(each, -1.0) for each in range(ENGINE_SLICE_ITEMS_MAX + 1)]
    text = "ab" * ENGINE_SLICE_CHARS_MAX
    parts = only(TextChunk, slices(TextChunk(text, FinishReason.STOP, ReportedUsage(1, 2), scores)))
    assert "".join(part.text for part in parts) == text
    assert [each for part in parts for each in part.logprobs] == scores
    assert [(bool(part.text), bool(part.logprobs)) for part in parts] == [(False, True)] * 2 + [(True, False)] * 2
    assert [(part.finish, part.usage) for part in parts] == [(None, None)] * 3 + [
        (FinishReason.STOP, ReportedUsage(1, 2))
    ]


def test_only_the_last_slice_has_the_facts() -> None:
    chunk = TokenChunk(range(2 * ENGINE_SLICE_ITEMS_MAX), facts=EngineFacts(7))
    assert [each.facts for each in only(TokenChunk, slices(chunk))] == [None, EngineFacts(7)]


async def test_after_an_error_no_slice_is_delivered() -> None:
    receiver = Receiver(error=EngineUnavailable("no"))
    sliced = SlicedDelivery(receiver, Flow())
    with pytest.raises(EngineUnavailable):
        async with sliced.running():
            sliced.take([LARGE])
            await asyncio.sleep(0)  # a longer wait would be ended by the error
            assert receiver.calls == 1
            assert not sliced.take([TextChunk("c")])
    assert receiver.calls == 1
