from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from antiphon_core.errors import (
    AntiphonError,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
    ResponseNotFound,
    StoreUnavailable,
    Timeout,
    TranslatorUnavailable,
    Unavailable,
)
from antiphon_core.retrying import CALL, HOPS, ONCE, STORE, TRANSLATOR_CALL, Retrier, Retry, RetryPolicy
from tests.support.manual_pacing import ManualPacing, attempts_in
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
KEEP = STORE[Retry.KEEP]
AWAY = StoreUnavailable("nobody there", away=True)
REPORTED = StoreUnavailable("its database is lost")
LATE = Timeout("no answer")


class Failing:
    """A call that raises the given errors, then `last` for ever; None: it succeeds."""

    def __init__(self, *errors: AntiphonError, last: AntiphonError | None = None) -> None:
        self.errors = list(errors)
        self.last = last
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        error = self.errors.pop(0) if self.errors else self.last
        if error is not None:
            raise error
        return "answer"


@pytest.fixture
def manual() -> ManualPacing:
    return ManualPacing()


@pytest.fixture
def retrier(manual: ManualPacing) -> Retrier:
    return Retrier(StoreUnavailable, manual.pacing)


@pytest.mark.parametrize(
    ("policy", "fault", "attempts"),
    [
        (CALL, AWAY, attempts_in(CALL, 10.0)),
        (CALL, Unavailable("The server is stopping.", away=True), attempts_in(CALL, 10.0)),
        (CALL, REPORTED, 3),
        (CALL, LATE, 1),
        (CALL, ResponseNotFound.of("r"), 1),
        (CALL, EngineUnavailable("of another hop"), 1),
        (CALL, TranslatorUnavailable("of another hop", away=True), 1),
        (KEEP, AWAY, attempts_in(KEEP, 10.0)),
        (KEEP, REPORTED, attempts_in(KEEP, 10.0)),
        (KEEP, LATE, attempts_in(KEEP, 10.0)),
        (KEEP, ResponseNotFound.of("r"), 1),
        (ONCE, AWAY, 1),
        (RetryPolicy(for_s=0), AWAY, 1),
        (RetryPolicy(attempts_max=4), AWAY, 4),
    ],
)
async def test_a_fault_is_repeated_as_often_as_its_policy_says(
    retrier: Retrier, policy: RetryPolicy, fault: AntiphonError, attempts: int
) -> None:
    call = Failing(last=fault)
    with pytest.raises(type(fault)) as caught:
        await retrier.run(call, policy)
    assert (caught.value, call.calls) == (fault, attempts)


async def test_pauses_double_up_to_the_longest_and_end_with_an_answer(retrier: Retrier, manual: ManualPacing) -> None:
    call = Failing(*[AWAY] * 5)
    assert await retrier.run(call, RetryPolicy(for_s=10, first_s=0.1, most_s=0.4)) == "answer"
    assert manual.pauses_s == [0.1, 0.2, 0.4, 0.4, 0.4]


def test_jitter_shortens_a_pause_by_a_quarter_at_most() -> None:
    pauses_s = RetryPolicy(first_s=1.0, most_s=1.0).pauses_s()
    seen = [next(pauses_s) for _ in range(200)]
    assert 0.75 <= min(seen) < max(seen) <= 1.0


async def test_calls_share_the_time_of_an_outage(retrier: Retrier, manual: ManualPacing) -> None:
    first, second = Failing(last=AWAY), Failing(last=AWAY)
    with pytest.raises(StoreUnavailable):
        await retrier.run(first, CALL)
    with pytest.raises(StoreUnavailable):  # away for too long: no request waits any more
        await retrier.run(second, CALL)
    assert second.calls == 1
    third = Failing(last=AWAY)
    with pytest.raises(StoreUnavailable):  # what a running turn writes has a time of its own
        await retrier.run(third, KEEP)
    assert third.calls == attempts_in(KEEP, KEEP.for_s)


async def test_a_fault_is_not_reported_for_longer_than_the_outage_may_last(
    retrier: Retrier, manual: ManualPacing
) -> None:
    """A database that is lost for all stores costs each call one attempt."""
    for outage_s, attempts in ((0.0, 3), (CALL.for_s / 2, 3), (CALL.for_s, 1)):
        manual.now_s = outage_s
        call = Failing(last=REPORTED)
        with pytest.raises(StoreUnavailable):
            await retrier.run(call, CALL)
        assert call.calls == attempts


@pytest.mark.parametrize("answer", [None, ResponseNotFound.of("r")])
async def test_an_answer_ends_the_outage(retrier: Retrier, answer: AntiphonError | None) -> None:
    with pytest.raises(StoreUnavailable):
        await retrier.run(Failing(last=AWAY), CALL)
    await asyncio.gather(retrier.run(Failing(last=answer), CALL), return_exceptions=True)
    call = Failing(AWAY, AWAY)
    assert await retrier.run(call, CALL) == "answer"


async def test_a_timeout_begins_an_outage(retrier: Retrier, manual: ManualPacing) -> None:
    with pytest.raises(Timeout):
        await retrier.run(Failing(last=LATE), CALL)
    manual.now_s += CALL.for_s
    call = Failing(last=AWAY)
    with pytest.raises(StoreUnavailable):
        await retrier.run(call, CALL)
    assert call.calls == 1


class Replicas:
    """Replicas that never answer the first `frozen` calls."""

    def __init__(self, *, frozen: int, error: Exception | None = None) -> None:
        self.frozen = frozen
        self.error = error
        self.calls = self.cancelled = 0

    async def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        try:
            if number <= self.frozen:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return number


HEDGED = RetryPolicy(for_s=0, hedges=TRANSLATOR_CALL.hedges, hedge_after_s=0.01)


async def test_a_call_that_is_answered_is_not_hedged(retrier: Retrier) -> None:
    replicas = Replicas(frozen=0)
    assert (await retrier.run(replicas, TRANSLATOR_CALL), replicas.calls) == (1, 1)


async def test_an_unanswered_call_is_hedged_and_then_cancelled(retrier: Retrier) -> None:
    replicas = Replicas(frozen=1)
    assert await retrier.run(replicas, HEDGED) in (2, 3)
    await asyncio.sleep(0)
    assert (replicas.calls, replicas.cancelled) == (1 + HEDGED.hedges, 1)


async def test_an_error_of_a_hedge_is_raised_as_its_answer(retrier: Retrier) -> None:
    replicas = Replicas(frozen=1, error=InvalidRequest("no"))
    with pytest.raises(InvalidRequest):
        await retrier.run(replicas, HEDGED)


async def test_only_the_first_attempt_is_hedged(manual: ManualPacing) -> None:
    replicas = Replicas(frozen=1, error=AWAY)
    policy = RetryPolicy(for_s=1.0, hedges=2, hedge_after_s=0.01, first_s=0.4, most_s=0.4)
    with pytest.raises(StoreUnavailable):
        await Retrier(StoreUnavailable, manual.pacing).run(replicas, policy)
    assert replicas.calls == attempts_in(policy, 1.0) + policy.hedges


async def test_cancelling_a_hedged_call_cancels_all_its_attempts(retrier: Retrier) -> None:
    replicas = Replicas(frozen=9)
    asking = asyncio.create_task(retrier.run(replicas, HEDGED))
    await until(lambda: replicas.calls == 1 + HEDGED.hedges, "all attempts began")
    asking.cancel()
    await asyncio.wait([asking])
    await asyncio.sleep(0)
    assert replicas.cancelled == replicas.calls == 1 + HEDGED.hedges


async def test_an_engine_timeout_is_an_answer_of_its_translator(manual: ManualPacing) -> None:
    retrier = Retrier(TranslatorUnavailable, manual.pacing)
    call = Failing(last=EngineTimeout("no token"))
    with pytest.raises(EngineTimeout):
        await retrier.run(call, replace(TRANSLATOR_CALL, timeout_for_s=1.0))
    assert (call.calls, retrier.outage_since_s) == (1, None)


def test_every_hop_has_an_owner_and_no_other_module_repeats_calls() -> None:
    owners = {hop.owner for hop in HOPS}
    assert all(find_spec(owner) for owner in owners)
    loop = re.compile(r"^from antiphon_core.retrying import .*\b(Retrier|Attempts|TAKEOVER|ENDPOINTS)\b", re.MULTILINE)
    modules = [*ROOT.glob("services/*/antiphon_*/**/*.py"), *ROOT.glob("libs/**/*.py")]
    users = {path for path in modules if loop.search(path.read_text())}
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts[2:]) for path in users}
    assert names == owners - {"antiphon_edge.background.background_policy"}  # a job is tried again by its queue
