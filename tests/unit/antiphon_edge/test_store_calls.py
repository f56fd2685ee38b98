from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, LogNotFound, ResponseNotFound, StoreUnavailable, Timeout
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.quotas import QuotaRequest
from antiphon_core.retrying import CALL, STORE, Retry
from antiphon_edge import store_calls
from antiphon_edge.store_calls import StoreWatch, fail_fast, retrying
from antiphon_store.testing.calls import FENCE, TENANT
from tests.support.manual_pacing import ManualPacing, attempts_in

LONG_S = 30.0


class Store:
    """A store that is ready, frozen, or raises `error` when it is asked whether it is ready."""

    def __init__(self, *, frozen: bool = False, error: Exception | None = None) -> None:
        self.frozen = frozen
        self.error = error
        self.asked = 0

    async def ready(self) -> None:
        self.asked += 1
        if self.frozen:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_calls, "SLOW_S", 0.02)
    monkeypatch.setattr(store_calls, "READY_S", 0.02)


def call(seconds: float, error: Exception | None = None) -> asyncio.Task[str]:
    async def answer() -> str:
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        return "answer"

    return asyncio.create_task(answer())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Replaces the clock that dates the store's last answer. Readiness checks have a long timeout here."""
    clock = ManualClock()
    monkeypatch.setattr(store_calls, "_now", clock.monotonic)
    monkeypatch.setattr(store_calls, "READY_S", LONG_S)
    return clock


async def test_quick_answer_needs_no_readiness_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_calls, "SLOW_S", LONG_S)
    store, asked = Store(frozen=True), call(0)
    await StoreWatch(store).while_it_lives(asked)
    assert (asked.result(), store.asked) == ("answer", 0)


class OutdatedWatch(StoreWatch):
    """A watch for which every sign of life is outdated at once."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store)
        self._clock = clock

    async def _require_sign_of_life(self, *, within_s: float) -> None:
        await super()._require_sign_of_life(within_s=within_s)
        self._clock.advance(2 * LONG_S)


async def test_a_slow_store_is_waited_for(clock: ManualClock) -> None:
    store = Store()

    async def answer() -> str:
        while store.asked < 3:
            await asyncio.sleep(0.001)
        return "answer"

    asked = asyncio.create_task(answer())
    async with asyncio.timeout(LONG_S):
        await OutdatedWatch(store, clock).while_it_lives(asked)
    assert asked.result() == "answer"


async def test_error_of_a_call_stays_in_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_calls, "SLOW_S", LONG_S)
    asked = call(0, ValueError("mine"))
    await StoreWatch(Store()).while_it_lives(asked)
    assert isinstance(asked.exception(), ValueError)


@pytest.mark.parametrize("store", [Store(frozen=True), Store(error=StoreUnavailable("not ready"))])
async def test_call_to_a_frozen_or_unready_store_raises_store_unavailable(store: Store) -> None:
    asked = call(60)
    with pytest.raises(StoreUnavailable):
        await StoreWatch(store).while_it_lives(asked)
    assert not asked.done()
    asked.cancel()


async def test_store_without_a_connection_is_not_given_up(clock: ManualClock) -> None:
    store = Store(error=StoreUnavailable("nobody there", away=True))

    async def answer() -> str:
        while store.asked < 3:
            await asyncio.sleep(0.001)
        return "answer"

    asked = asyncio.create_task(answer())
    async with asyncio.timeout(LONG_S):
        await StoreWatch(store).while_it_lives(asked)
    assert asked.result() == "answer"


async def test_concurrent_callers_share_one_readiness_check() -> None:
    store = Store(frozen=True)
    watch, asked = StoreWatch(store), [call(60) for _ in range(50)]
    waited = await asyncio.gather(*map(watch.while_it_lives, asked), return_exceptions=True)
    assert all(isinstance(each, StoreUnavailable) for each in waited)
    assert store.asked == 1
    for each in asked:
        each.cancel()


async def test_store_that_answers_other_calls_is_not_given_up(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, go, looks = Store(frozen=True), asyncio.Event(), 0
    watch = StoreWatch(store)
    with monkeypatch.context() as at_first:
        at_first.setattr(store_calls, "SLOW_S", LONG_S)
        await watch.while_it_lives(call(0))

    def now() -> float:
        nonlocal looks
        looks += 1
        return clock.monotonic()

    monkeypatch.setattr(store_calls, "_now", now)
    slow = asyncio.create_task(watch.while_it_lives(asyncio.ensure_future(go.wait())))
    async with asyncio.timeout(LONG_S):
        while looks < 10:
            clock.advance(store_calls.SLOW_S / 2)
            await watch.while_it_lives(call(0))
            looks -= 1  # not counting the look of the answered call
    go.set()
    await slow
    assert store.asked == 0


async def test_unavailable_answer_is_not_taken_for_a_sign_of_life() -> None:
    watch = StoreWatch(Store(frozen=True))
    refused = call(0, StoreUnavailable("gone"))
    await watch.while_it_lives(refused)
    assert isinstance(refused.exception(), StoreUnavailable)
    hanging = call(60)
    with pytest.raises(StoreUnavailable):
        await watch.while_it_lives(hanging)
    hanging.cancel()


async def test_store_that_answered_recently_needs_no_readiness_check() -> None:
    store = Store()
    watch = StoreWatch(store)
    for _ in range(3):
        await watch.require_room()
    assert store.asked == 1


async def test_a_full_store_is_alive_and_takes_no_turn_until_it_has_room() -> None:
    store = Store(error=StoreUnavailable("full", full=True))
    watch = StoreWatch(store)
    with pytest.raises(StoreUnavailable, match="no room"):
        await watch.require_room()
    slow = asyncio.Event()
    reading = asyncio.create_task(watch.while_it_lives(asyncio.ensure_future(slow.wait())))
    await asyncio.sleep(0.1)
    slow.set()
    await reading
    store.error = None
    await watch.require_room()


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (Store(frozen=True), "does not answer"),
        (Store(error=StoreUnavailable("its database is lost")), "its database is lost"),
    ],
)
async def test_room_check_of_a_frozen_or_broken_store_raises_its_own_reason(store: Store, reason: str) -> None:
    with pytest.raises(StoreUnavailable, match=reason) as caught:
        await StoreWatch(store).require_room()
    assert not caught.value.is_full


class SlowStore:
    """A store that answers when `go` is set, and is ready while `is_there`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.is_there = True
        self.cancelled = 0
        self.error: Exception | None = None

    async def ready(self) -> None:
        if not self.is_there:
            raise StoreUnavailable("frozen")

    async def get(self, tenant: str, response_id: str) -> str:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return f"{tenant} {response_id}"

    begin_turn = get


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


def asked(store: SlowStore) -> Any:
    typed: Any = store
    return fail_fast(typed, StoreWatch(typed))


def test_calls_that_wait_or_give_back_do_not_fail_fast() -> None:
    named = {name for name in dir(FullStore) if callable(getattr(FullStore, name)) and not name.startswith("_")}
    assert named - store_calls._FAIL_FAST == {
        *("acquire_session", "begin_turn", "claim_job", "heartbeat_job", "read_events", "ready", "take_quota"),
        *("abort_turn", "release_session", "settle_job"),
    }


async def test_call_to_a_frozen_store_fails_fast_and_is_cancelled(store: SlowStore) -> None:
    store.is_there = False
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(asked(store).get("t", "r"), 5)
    await asyncio.sleep(0)
    assert store.cancelled == 1


async def test_slow_store_is_waited_for(store: SlowStore) -> None:
    waiting = asyncio.create_task(asked(store).get("t", response_id="r"))
    await asyncio.sleep(10 * store_calls.SLOW_S)
    store.go.set()
    assert await waiting == "t r"


async def test_error_of_the_store_is_raised_unchanged(store: SlowStore) -> None:
    store.go.set()
    store.error = ResponseNotFound.of("r")
    with pytest.raises(ResponseNotFound):
        await asked(store).get("t", "r")


async def test_a_missed_deadline_says_that_the_store_is_unavailable(store: SlowStore) -> None:
    store.go.set()
    store.error = Timeout("Deadline Exceeded")
    with pytest.raises(StoreUnavailable):
        await asked(store).get("t", "r")


async def test_call_that_does_not_fail_fast_waits_for_a_frozen_store(store: SlowStore) -> None:
    store.is_there = False
    waiting = asyncio.create_task(asked(store).begin_turn("t", "r"))
    await asyncio.sleep(10 * store_calls.SLOW_S)
    store.go.set()
    assert await waiting == "t r"


AWAY = StoreUnavailable("nobody there", away=True)


class FailingStore:
    """A store whose calls fail, `failures` times each if that is given. It keeps their arguments."""

    def __init__(self, fault: AntiphonError = AWAY, failures: int = 10_000) -> None:
        self.fault = fault
        self.failures = failures
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **options: Any) -> str:
            self.calls.append((name, arguments, options))
            if len(self.calls) <= self.failures:
                raise self.fault
            return "answer"

        return call


class Log:
    """A log whose every reading breaks after `each` events."""

    def __init__(self, each: int, fault: AntiphonError = AWAY) -> None:
        self.each = each
        self.fault = fault
        self.readings = 0

    async def read_events(self, *_arguments: Any, **_options: Any) -> AsyncGenerator[EventBatch, None]:
        self.readings += 1
        for number in range(self.each):
            yield EventBatch(number, 1, b"")
        raise self.fault


@pytest.fixture
def manual() -> ManualPacing:
    return ManualPacing()


def wrapped(store: Any, manual: ManualPacing) -> Any:
    return retrying(store, pacing=manual.pacing)


async def test_a_repeated_call_has_the_same_arguments(manual: ManualPacing) -> None:
    store = FailingStore(failures=3)
    assert await wrapped(store, manual).commit_turn(TENANT, "commit", fence=FENCE) == "answer"
    assert store.calls == [("commit_turn", (TENANT, "commit"), {"fence": FENCE})] * 4


@pytest.mark.parametrize("fault", [AWAY, StoreUnavailable("its database is lost"), Timeout("late")])
async def test_a_commit_waits_ten_seconds_for_its_store(manual: ManualPacing, fault: AntiphonError) -> None:
    with pytest.raises(type(fault)):
        await wrapped(FailingStore(fault), manual).commit_turn(TENANT, "commit")
    assert 10 <= manual.now_s < 10 + STORE[Retry.KEEP].most_s


async def test_a_fork_without_an_id_has_the_same_id_in_each_attempt(manual: ManualPacing) -> None:
    store = FailingStore(failures=2)
    await wrapped(store, manual).fork(TENANT, ForkSource(session_id="s"))
    chosen = {options["new_session_id"] for _, _, options in store.calls}
    assert len(store.calls) == 3
    assert len(chosen) == 1
    assert None not in chosen


@pytest.mark.parametrize(
    ("tenant", "name", "arguments", "repeats"),
    [
        (TENANT, "claim_job", (["q"],), True),
        (DISPATCH_TENANT, "claim_job", (["q"],), False),  # another claim gives another tenant's job
        (TENANT, "take_quota", (QuotaRequest([]),), False),  # it would count twice
        (TENANT, "heartbeat_job", (FENCE,), False),  # its keeper repeats it
        (TENANT, "renew_session", (FENCE,), False),
    ],
)
async def test_a_call_with_another_owner_or_effect_is_made_once(
    manual: ManualPacing, tenant: str, name: str, arguments: tuple[Any, ...], repeats: bool
) -> None:
    store = FailingStore()
    with pytest.raises(StoreUnavailable):
        await getattr(wrapped(store, manual), name)(tenant, *arguments)
    assert len(store.calls) == (attempts_in(CALL, CALL.for_s) if repeats else 1)


async def test_the_setting_says_how_long_an_absent_store_is_waited_for(manual: ManualPacing) -> None:
    store: Any = FailingStore()
    with pytest.raises(StoreUnavailable):
        await retrying(store, restart_wait_s=1.0, pacing=manual.pacing).get(TENANT, "r")
    assert 1.0 <= manual.now_s < 1.0 + CALL.most_s


@pytest.mark.parametrize(("restart_wait_s", "waited_s"), [(1.0, 10.0), (60.0, 60.0)])
async def test_a_commit_is_not_given_up_before_calls_that_wait_for_an_answer(
    manual: ManualPacing, restart_wait_s: float, waited_s: float
) -> None:
    store, commit = cast(Any, FailingStore()), cast(Any, "commit")
    with pytest.raises(StoreUnavailable):
        await retrying(store, restart_wait_s=restart_wait_s, pacing=manual.pacing).commit_turn(TENANT, commit)
    assert waited_s <= manual.now_s < waited_s + STORE[Retry.KEEP].most_s


async def test_a_stream_of_events_is_repeated_until_it_has_begun(manual: ManualPacing) -> None:
    log = Log(each=0)
    with pytest.raises(StoreUnavailable):
        [batch async for batch in wrapped(log, manual).read_events(TENANT, "r")]
    assert log.readings == attempts_in(CALL, CALL.for_s)
    log = Log(each=1)
    with pytest.raises(StoreUnavailable):
        [batch async for batch in wrapped(log, manual).read_events(TENANT, "r", follow=True)]
    assert log.readings == 1


async def test_a_log_that_is_missing_is_not_read_again(manual: ManualPacing) -> None:
    log = Log(each=0, fault=LogNotFound.of("r"))
    with pytest.raises(LogNotFound):
        [batch async for batch in wrapped(log, manual).read_events(TENANT, "r", follow=True)]
    assert log.readings == 1
