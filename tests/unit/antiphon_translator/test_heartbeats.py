from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_translator import heartbeats
from antiphon_translator.heartbeats import Heartbeats
from antiphon_translator.send_queue import HEARTBEAT, SendQueue


async def test_silent_stream_gets_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = SendQueue(Flow())
    monkeypatch.setattr(heartbeats, "BEATS", 6_000)
    beats = Heartbeats(queue, 60.0)  # on a busy machine a beat may be seconds late
    with beats.running():
        assert await queue.take() is HEARTBEAT
        assert await queue.take() is HEARTBEAT
    beats.require_awake()


async def test_stream_with_silence_zero_gets_no_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = SendQueue(Flow())
    monkeypatch.setattr(queue, "beat", lambda: pytest.fail("a heartbeat"))
    with Heartbeats(queue, 0).running():
        queue.close()
        assert await queue.take() is None


async def test_turn_in_a_frozen_process_ends_as_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = SendQueue(Flow())
    beats = Heartbeats(queue, 4.0)
    loop = asyncio.get_running_loop()
    with beats.running():
        now_s = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now_s + 30.0)
        assert await queue.take() is None
    with pytest.raises(TranslatorUnavailable, match="29.8 s"):
        beats.require_awake()
