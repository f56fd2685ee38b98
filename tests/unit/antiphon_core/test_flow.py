from __future__ import annotations

import asyncio

from antiphon_core.flow import Flow


class Source:
    """Records the calls of a flow."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


async def test_flow_stays_paused_until_every_receiver_resumes() -> None:
    flow, source, first, second = Flow(), Source(), object(), object()
    with flow.listening(pause=source.pause, resume=source.resume):
        flow.pause(first)
        flow.pause(first)
        flow.pause(second)
        flow.resume(first)
        assert flow.is_paused
        flow.resume(second)
        assert not flow.is_paused
    assert source.told == ["pause", "resume"]


async def test_source_of_a_paused_flow_is_paused_at_once() -> None:
    flow, source = Flow(), Source()
    flow.pause(source)
    with flow.listening(pause=source.pause, resume=source.resume):
        assert source.told == ["pause"]


async def test_every_listener_is_paused_and_resumed_until_it_leaves() -> None:
    flow, source, timer = Flow(), Source(), Source()
    with flow.listening(pause=source.pause, resume=source.resume):
        with flow.listening(pause=timer.pause, resume=timer.resume):
            flow.pause(flow)
        flow.resume(flow)
    flow.pause(flow)
    assert (source.told, timer.told) == (["pause", "resume"], ["pause"])


async def test_resume_of_a_receiver_that_did_not_pause_changes_nothing() -> None:
    flow, source = Flow(), Source()
    with flow.listening(pause=source.pause, resume=source.resume):
        flow.resume(source)
    assert source.told == []


async def test_reader_waits_until_the_flow_is_open() -> None:
    flow = Flow()
    await flow.wait_until_open()
    flow.pause(flow)
    waiting = asyncio.create_task(flow.wait_until_open())
    await asyncio.sleep(0)
    assert not waiting.done()
    flow.resume(flow)
    await waiting


async def test_reader_goes_on_waiting_when_the_flow_is_paused_again() -> None:
    flow = Flow()
    flow.pause(flow)
    waiting = asyncio.create_task(flow.wait_until_open())
    await asyncio.sleep(0)
    flow.resume(flow)
    flow.pause(flow)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    flow.resume(flow)
    await waiting
