from __future__ import annotations

import asyncio

from antiphon_core.flow import Flow


class Source:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")


def test_source_is_paused_by_the_first_receiver_and_resumed_by_the_last() -> None:
    flow, source, slow, slower = Flow(), Source(), object(), object()
    with flow.fed_by(pause=source.pause, resume=source.resume):
        flow.pause(slow)
        flow.pause(slower)
        flow.resume(slow)
        assert flow.is_paused
        assert source.calls == ["pause"]
        flow.resume(slower)
    assert not flow.is_paused
    assert source.calls == ["pause", "resume"]


def test_second_pause_of_one_receiver_needs_no_second_resume() -> None:
    flow, receiver = Flow(), object()
    flow.pause(receiver)
    flow.pause(receiver)
    flow.resume(receiver)
    assert not flow.is_paused


def test_resume_without_pause_does_nothing() -> None:
    flow, source = Flow(), Source()
    with flow.fed_by(pause=source.pause, resume=source.resume):
        flow.resume(object())
        flow.pause(source)
        flow.resume(object())
        assert flow.is_paused
    assert source.calls == ["pause"]


def test_source_of_a_paused_flow_is_paused_at_once() -> None:
    flow, source = Flow(), Source()
    flow.pause(flow)
    with flow.fed_by(pause=source.pause, resume=source.resume):
        assert source.calls == ["pause"]


def test_source_that_has_ended_is_told_nothing() -> None:
    flow, source = Flow(), Source()
    with flow.fed_by(pause=source.pause, resume=source.resume):
        pass
    flow.pause(flow)
    flow.resume(flow)
    assert source.calls == []


async def test_wait_until_open_returns_at_once_or_after_the_last_resume() -> None:
    flow, receiver = Flow(), object()
    await flow.wait_until_open()
    flow.pause(receiver)
    waiting = asyncio.create_task(flow.wait_until_open())
    await asyncio.sleep(0)
    assert not waiting.done()
    flow.resume(receiver)
    await waiting
