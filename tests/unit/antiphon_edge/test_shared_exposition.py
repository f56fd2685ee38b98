from __future__ import annotations

import asyncio
import threading

import pytest

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.exposition import OPEN_METRICS, Exposition
from antiphon_edge.shared_exposition import SharedExposition


class HeldExposition(Exposition):
    """Counts the texts that it writes; each waits until the test lets it end."""

    def __init__(self) -> None:
        super().__init__(["worker"])
        self.written: list[str] = []
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def text(self, accept: str = "") -> tuple[bytes, str]:
        self.written.append(accept)
        self.has_begun.set()
        assert self.may_end.wait(60)
        return super().text(accept)


async def test_readers_that_ask_while_a_text_is_written_share_the_next_one() -> None:
    held = HeldExposition()
    shared = SharedExposition(held, pace_s=0)
    first = asyncio.create_task(shared.text(""))
    await asyncio.to_thread(held.has_begun.wait, 60)
    metrics.WORKER_SLOTS.of().set(41)
    rest = [asyncio.create_task(shared.text(f"text/plain; version=0.0.{each}")) for each in range(30)]
    rest += [
        asyncio.create_task(shared.text(f"application/openmetrics-text; version=1.0.{each}")) for each in range(30)
    ]
    await asyncio.sleep(0)
    held.may_end.set()
    texts = await asyncio.gather(*rest)
    assert (await first)[1].startswith("text/plain")
    assert sorted(held.written) == ["", "", OPEN_METRICS]
    assert all(b"antiphon_worker_slots 41.0" in text for text, _ in texts)  # none is older than its request
    assert {content_type.split(";")[0] for _, content_type in texts} == {"text/plain", "application/openmetrics-text"}


async def test_a_reader_that_leaves_does_not_take_the_text_from_the_others() -> None:
    held = HeldExposition()
    shared = SharedExposition(held, pace_s=0)
    leaving, staying = (asyncio.create_task(shared.text("")) for _ in range(2))
    await asyncio.to_thread(held.has_begun.wait, 60)
    leaving.cancel()
    held.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert (await staying)[0]
    assert held.written == [""]


async def test_a_text_begins_no_sooner_than_the_pace_after_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldExposition()
    held.may_end.set()
    shared = SharedExposition(held, pace_s=3600)
    await shared.text("")
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    await shared.text("")
    assert waits[0] > 3000
    assert len(held.written) == 2


async def test_an_error_reaches_its_readers_and_no_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldExposition()
    held.may_end.set()
    shared = SharedExposition(held, pace_s=0)
    with monkeypatch.context() as broken:
        broken.setattr(held, "collect", None)
        with pytest.raises(TypeError):
            await shared.text("")
    assert (await shared.text(""))[0]
