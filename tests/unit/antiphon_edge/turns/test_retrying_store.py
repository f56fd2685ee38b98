from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon_core.errors import AntiphonError, LogNotFound, StoreUnavailable, Timeout
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.quotas import QuotaRequest
from antiphon_core.retrying import CALL, STORE, Retry
from antiphon_edge.turns.retrying_store import retrying
from antiphon_store.testing.calls import FENCE, TENANT
from tests.support.manual_pacing import ManualPacing, attempts_in

AWAY = StoreUnavailable("nobody there", away=True)


class Store:
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
    store = Store(failures=3)
    assert await wrapped(store, manual).commit_turn(TENANT, "commit", fence=FENCE) == "answer"
    assert store.calls == [("commit_turn", (TENANT, "commit"), {"fence": FENCE})] * 4


@pytest.mark.parametrize("fault", [AWAY, StoreUnavailable("its database is lost"), Timeout("late")])
async def test_a_commit_waits_ten_seconds_for_its_store(manual: ManualPacing, fault: AntiphonError) -> None:
    with pytest.raises(type(fault)):
        await wrapped(Store(fault), manual).commit_turn(TENANT, "commit")
    assert 10 <= manual.now_s < 10 + STORE[Retry.KEEP].most_s


async def test_a_fork_without_an_id_has_the_same_id_in_each_attempt(manual: ManualPacing) -> None:
    store = Store(failures=2)
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
    store = Store()
    with pytest.raises(StoreUnavailable):
        await getattr(wrapped(store, manual), name)(tenant, *arguments)
    assert len(store.calls) == (attempts_in(CALL, CALL.for_s) if repeats else 1)


async def test_the_setting_says_how_long_an_absent_store_is_waited_for(manual: ManualPacing) -> None:
    store: Any = Store()
    with pytest.raises(StoreUnavailable):
        await retrying(store, restart_wait_s=1.0, pacing=manual.pacing).get(TENANT, "r")
    assert 1.0 <= manual.now_s < 1.0 + CALL.most_s


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
