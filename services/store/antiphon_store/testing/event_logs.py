"""Event logs: idempotent appends in order, reads from any position, following to the end, expiry."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar, cast

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, LogClosed, LogNotFound, PositionMismatch, StaleFence, TooLarge
from antiphon_core.events import encode
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch, EventLogs, Step, StepKind
from antiphon_core.ports.store import Fence
from antiphon_store.testing.races import race
from antiphon_store.testing.subject import SOON_S, Subject, new_session_id

LIFETIME_MS = 3600 * 1000  # the default of `event_log_ttl_s`


def logs_of(store: object) -> EventLogs:
    return cast("EventLogs", store)


def new_id() -> str:
    return new_response_id(RandomIds())


def frame(number: int, text: str = "ü") -> bytes:
    return encode({"type": "response.output_text.delta", "sequence_number": number, "delta": text})


def append_at(response_id: str, position: int, count: int = 1, *, text: str = "ü", **members: object) -> EventAppend:
    frames = b"".join(frame(number, text) for number in range(position, position + count))
    return EventAppend(response_id, position, count, frames, **members)  # type: ignore[arg-type]


async def write(subject: Subject, append: EventAppend, fence: Fence | None = None) -> int:
    return await logs_of(subject.store).append_events(subject.tenant, append, fence=fence)


async def read(
    subject: Subject, response_id: str, after: int | None = None, *, follow: bool = False
) -> list[EventBatch]:
    """Reads all batches with the second client, and checks that they are consecutive."""
    reading = logs_of(subject.peer).read_events(subject.tenant, response_id, after=after, follow=follow)
    async with aclosing(reading) as batches:
        found = [batch async for batch in batches]
    position = 0 if after is None else after + 1
    for batch in found:
        assert (batch.first_sequence, batch.count > 0) == (position, True)
        position += batch.count
    return found


def frames_of(batches: Sequence[EventBatch]) -> bytes:
    return b"".join(batch.frames for batch in batches)


class EventLogSuite:
    async def test_events_come_back_as_they_were_given(self, subject: Subject) -> None:
        response_id = new_id()
        assert await write(subject, append_at(response_id, 0, 3)) == 3
        assert await write(subject, append_at(response_id, 3, 2, terminal=True)) == 5
        batches = await read(subject, response_id)
        assert frames_of(batches) == b"".join(map(frame, range(5)))
        assert [batch.terminal for batch in batches][-1]
        assert not any(batch.terminal for batch in batches[:-1])

    async def test_a_log_is_resumed_after_any_event(self, subject: Subject) -> None:
        response_id = new_id()
        for position, count in ((0, 1), (1, 4), (5, 2)):
            await write(subject, append_at(response_id, position, count))
        for after in range(9):
            expected = b"".join(map(frame, range(after + 1, 7)))
            assert frames_of(await read(subject, response_id, after)) == expected, after

    async def test_frames_of_any_bytes_are_kept_unchanged(self, subject: Subject) -> None:
        response_id = new_id()
        append = EventAppend(response_id, 0, 2, b"data: \xff\x00\n\n: one\ndata: two\n\n")
        await write(subject, append)
        assert frames_of(await read(subject, response_id)) == append.frames
        assert frames_of(await read(subject, response_id, 0)) == b": one\ndata: two\n\n"

    async def test_a_long_log_is_read_in_parts(self, subject: Subject) -> None:
        response_id, text = new_id(), "x" * (limits.EVENT_PAGE_BYTES // 3)
        for position in range(0, 8, 2):
            await write(subject, append_at(response_id, position, 2, text=text))
        batches = await read(subject, response_id, 0)
        assert len(batches) > 1
        assert frames_of(batches) == b"".join(frame(number, text) for number in range(1, 8))

    async def test_checkpoints_are_read_with_their_events(self, subject: Subject) -> None:
        response_id = new_id()
        checkpoints = [Checkpoint(0, (1, 2**32 - 1)), Checkpoint(2, ()), Checkpoint(2, tuple(range(300)))]
        await write(subject, append_at(response_id, 0, checkpoint=checkpoints[0]))
        await write(subject, append_at(response_id, 1))
        for position, checkpoint in enumerate(checkpoints[1:], start=2):
            await write(subject, append_at(response_id, position, checkpoint=checkpoint))
        batches = await read(subject, response_id)
        assert [checkpoint for batch in batches for checkpoint in batch.checkpoints] == checkpoints
        batches = await read(subject, response_id, 1)
        assert [checkpoint for batch in batches for checkpoint in batch.checkpoints] == checkpoints[1:]

    async def test_steps_are_read_with_their_events(self, subject: Subject) -> None:
        response_id = new_id()
        steps = (Step(1, StepKind.INTENT, data=b'{"items":2}'), Step(1, StepKind.RESULT, "mcp_1"))
        await write(subject, append_at(response_id, 0, steps=steps[:1]))
        await write(subject, append_at(response_id, 1))
        await write(subject, append_at(response_id, 2, steps=steps[1:]))
        assert [step for batch in await read(subject, response_id) for step in batch.steps] == list(steps)
        assert [step for batch in await read(subject, response_id, 1) for step in batch.steps] == [steps[1]]

    async def test_a_log_that_was_never_written_is_not_found(self, subject: Subject) -> None:
        for follow in (False, True):
            response_id = new_id()
            with pytest.raises(LogNotFound) as caught:
                await read(subject, response_id, follow=follow)
            assert caught.value.facts == {"id": response_id}

    async def test_logs_of_two_tenants_are_separate(self, subject: Subject) -> None:
        stranger = replace(subject, tenant=subject.tenant + "-other")
        response_id = new_id()
        await write(subject, append_at(response_id, 0, 2))
        with pytest.raises(LogNotFound):
            await read(stranger, response_id)
        await write(stranger, append_at(response_id, 0, text="theirs"))
        assert frames_of(await read(subject, response_id)) == frame(0) + frame(1)

    async def test_a_log_expires_after_its_last_append(self, subject: Subject) -> None:
        response_id = new_id()
        await write(subject, append_at(response_id, 0))
        await subject.elapse(LIFETIME_MS - 1)
        await write(subject, append_at(response_id, 1))
        await subject.elapse(LIFETIME_MS - 1)
        assert frames_of(await read(subject, response_id)) == frame(0) + frame(1)
        await subject.elapse(1)
        with pytest.raises(LogNotFound):
            await read(subject, response_id)
        with pytest.raises(PositionMismatch):
            await write(subject, append_at(response_id, 2))
        assert await write(subject, append_at(response_id, 0, text="anew")) == 1
        assert frames_of(await read(subject, response_id)) == frame(0, "anew")


class EventLogAppendSuite:
    rounds: ClassVar[int] = 12

    async def test_a_repeated_append_changes_nothing(self, subject: Subject) -> None:
        response_id = new_id()
        appends = [
            append_at(response_id, 0, 2, checkpoint=Checkpoint(0, (7,))),
            append_at(response_id, 2, 1, steps=(Step(1, StepKind.RESULT, "mcp_1"),)),
            append_at(response_id, 3, 1, terminal=True),
        ]
        for number, append in enumerate(appends):
            for again in appends[: number + 1]:
                await write(subject, again)
            assert await write(subject, append) == append.expected_position + append.count
        batches = await read(subject, response_id)
        assert frames_of(batches) == b"".join(append.frames for append in appends)
        assert batches[0].checkpoints == (Checkpoint(0, (7,)),)

    @pytest.mark.parametrize("position", [0, 1, 3, 9])
    async def test_an_append_with_a_gap_or_other_content_is_rejected(self, subject: Subject, position: int) -> None:
        response_id = new_id()
        await write(subject, append_at(response_id, 0, 2))
        with pytest.raises(PositionMismatch) as caught:
            await write(subject, append_at(response_id, position, 2, text="other"))
        assert caught.value.facts == {"id": response_id, "expected": str(position), "actual": "2"}
        assert frames_of(await read(subject, response_id)) == frame(0) + frame(1)

    async def test_a_first_append_behind_position_zero_is_rejected(self, subject: Subject) -> None:
        response_id = new_id()
        with pytest.raises(PositionMismatch) as caught:
            await write(subject, append_at(response_id, 1))
        assert caught.value.facts["actual"] == "0"
        with pytest.raises(LogNotFound):
            await read(subject, response_id)

    @pytest.mark.parametrize(
        "change",
        [
            {"terminal": True},
            {"checkpoint": Checkpoint(1, (5,))},
            {"frames": frame(0, "other")},
            {"steps": (Step(1, StepKind.INTENT),)},
        ],
    )
    async def test_a_repeated_append_with_a_changed_field_is_rejected(
        self, subject: Subject, change: dict[str, object]
    ) -> None:
        append = append_at(new_id(), 0, checkpoint=Checkpoint(0, (5,)))
        await write(subject, append)
        with pytest.raises(PositionMismatch):
            await write(subject, replace(append, **change))  # type: ignore[arg-type]

    async def test_an_append_after_the_terminal_event_is_rejected(self, subject: Subject) -> None:
        response_id = new_id()
        last = append_at(response_id, 0, 2, terminal=True)
        await write(subject, last)
        for append in (append_at(response_id, 2), append_at(response_id, 0, 2), append_at(response_id, 9)):
            with pytest.raises(LogClosed) as caught:
                await write(subject, append)
            assert caught.value.facts == {"id": response_id}
        assert await write(subject, last) == 2
        assert frames_of(await read(subject, response_id)) == last.frames

    async def test_an_append_with_a_stale_fence_is_rejected(self, subject: Subject) -> None:
        response_id = new_id()
        session_id = new_session_id(beside=response_id)
        lease = await subject.store.acquire_session(subject.tenant, session_id, holder="a", ttl_ms=500)
        first = append_at(response_id, 0)
        await write(subject, first, lease.fence)
        await subject.elapse(500)
        with pytest.raises(StaleFence):
            await write(subject, append_at(response_id, 1), lease.fence)
        successor = await subject.peer.acquire_session(subject.tenant, session_id, holder="b")
        with pytest.raises(StaleFence):
            await write(subject, append_at(response_id, 1), lease.fence)
        assert await write(subject, append_at(response_id, 1), successor.fence) == 2
        assert await write(subject, first, lease.fence) == 1

    async def test_one_of_two_concurrent_appends_at_one_position_wins(self, subject: Subject) -> None:
        response_id = new_id()
        for position in range(self.rounds):
            ours, theirs = (append_at(response_id, position, text=text) for text in ("ours", "theirs"))
            answers, errors = await race(
                logs_of(subject.store).append_events(subject.tenant, ours),
                logs_of(subject.peer).append_events(subject.tenant, theirs),
            )
            assert answers == [position + 1]
            assert [type(error) for error in errors] == [PositionMismatch]
            assert frames_of(await read(subject, response_id, position - 1 if position else None)) in (
                ours.frames,
                theirs.frames,
            )

    async def test_an_append_sent_twice_at_once_happens_once(self, subject: Subject) -> None:
        response_id = new_id()
        for position in range(self.rounds):
            append = append_at(response_id, position)
            answers, errors = await race(
                *(logs_of(store).append_events(subject.tenant, append) for store in (subject.store, subject.peer))
            )
            assert (answers, errors) == ([position + 1] * 2, [])
        assert frames_of(await read(subject, response_id)) == b"".join(map(frame, range(self.rounds)))


class EventLogFollowSuite:
    async def test_a_follower_sees_everything_up_to_the_end(self, subject: Subject) -> None:
        response_id = new_id()
        await write(subject, append_at(response_id, 0))
        following = [
            asyncio.create_task(read(subject, response_id, after, follow=True)) for after in (None, 0, 2, 3, 4)
        ]
        for position in range(1, 5):
            await asyncio.sleep(0.005)
            await write(subject, append_at(response_id, position, terminal=position == 4))
        seen = await asyncio.wait_for(asyncio.gather(*following), SOON_S)
        for batches, first in zip(seen, (0, 1, 3, 4, 5), strict=True):
            assert frames_of(batches) == b"".join(map(frame, range(first, 5)))
            assert [batch.terminal for batch in batches[-1:]] == [True] * bool(batches)

    async def test_following_an_ended_log_ends_after_its_events(self, subject: Subject) -> None:
        response_id = new_id()
        await write(subject, append_at(response_id, 0, 2, terminal=True))
        assert frames_of(await asyncio.wait_for(read(subject, response_id, 0, follow=True), SOON_S)) == frame(1)
        assert await asyncio.wait_for(read(subject, response_id, 1, follow=True), SOON_S) == []

    async def test_a_read_without_follow_ends_at_the_last_event(self, subject: Subject) -> None:
        response_id = new_id()
        await write(subject, append_at(response_id, 0))
        assert frames_of(await asyncio.wait_for(read(subject, response_id), SOON_S)) == frame(0)
        assert await asyncio.wait_for(read(subject, response_id, 7), SOON_S) == []

    async def test_a_follower_that_leaves_does_not_disturb_other_followers(self, subject: Subject) -> None:
        response_id = new_id()
        await write(subject, append_at(response_id, 0))
        staying = asyncio.create_task(read(subject, response_id, follow=True))
        async with aclosing(logs_of(subject.store).read_events(subject.tenant, response_id, follow=True)) as leaving:
            assert (await anext(leaving)).frames == frame(0)
        await write(subject, append_at(response_id, 1, terminal=True))
        assert frames_of(await asyncio.wait_for(staying, SOON_S)) == frame(0) + frame(1)

    async def test_following_an_expired_log_ends_with_not_found(self, subject: Subject) -> None:
        response_id = new_id()
        await write(subject, append_at(response_id, 0))
        reading = logs_of(subject.store).read_events(subject.tenant, response_id, follow=True)
        async with aclosing(reading) as batches:
            await anext(batches)
            await subject.elapse(LIFETIME_MS)
            with pytest.raises(LogNotFound):
                await asyncio.wait_for(anext(batches), SOON_S)


GOOD = append_at(new_id(), 0, 2)
BAD_CALLS: list[tuple[str, EventAppend]] = [
    ("response_id", replace(GOOD, response_id="resp_1")),
    ("count", replace(GOOD, count=0)),
    ("count", replace(GOOD, count=-1)),
    ("count", replace(GOOD, count=limits.APPEND_EVENTS_MAX + 1)),
    ("expected_position", replace(GOOD, expected_position=-1)),
    ("expected_position", replace(GOOD, expected_position=2**63 - 1)),
    ("frames", replace(GOOD, count=1)),
    ("frames", replace(GOOD, count=3)),
    ("frames", replace(GOOD, frames=b"")),
    ("frames", replace(GOOD, frames=GOOD.frames + b"data")),
    ("checkpoint.offset", replace(GOOD, checkpoint=Checkpoint(-1, ()))),
    ("checkpoint.token_ids", replace(GOOD, checkpoint=Checkpoint(0, (-1,)))),
    ("checkpoint.token_ids", replace(GOOD, checkpoint=Checkpoint(0, (2**32,)))),
    ("steps[0].round", replace(GOOD, steps=(Step(0, StepKind.INTENT),))),
    ("steps[0].call_id", replace(GOOD, steps=(Step(1, StepKind.RESULT, "x" * 257),))),
]


class EventLogArgumentSuite:
    @pytest.mark.parametrize(
        ("field", "append"), BAD_CALLS, ids=[f"{number}-{field}" for number, (field, _) in enumerate(BAD_CALLS)]
    )
    async def test_an_invalid_append_is_rejected_with_its_field(
        self, subject: Subject, field: str, append: EventAppend
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await write(subject, append)
        assert caught.value.field == field

    async def test_an_invalid_read_is_rejected_with_its_field(self, subject: Subject) -> None:
        for response_id, after, field in (
            ("", None, "response_id"),
            (new_id(), -1, "after"),
            (new_id(), 2**63, "after"),
        ):
            with pytest.raises(InvalidRequest) as caught:
                await read(subject, response_id, after)
            assert caught.value.field == field

    async def test_an_invalid_fence_is_rejected_with_its_field(self, subject: Subject) -> None:
        for fence, field in ((Fence("", 1), "fence.session_id"), (Fence("s", 0), "fence.token")):
            with pytest.raises(InvalidRequest) as caught:
                await write(subject, GOOD, fence)
            assert caught.value.field == field

    async def test_an_append_over_the_limit_is_too_large(self, subject: Subject) -> None:
        with pytest.raises(TooLarge) as caught:
            await write(subject, append_at(new_id(), 0, text="x" * limits.APPEND_BYTES_MAX))
        assert caught.value.field == "frames"
