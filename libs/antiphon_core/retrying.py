"""The retries of failed calls: for each hop one policy (which faults, for how long, with which backoff) and one owner.

Each hop has one owner, the module that `HOPS` names. Every other layer makes one attempt: channels of gRPC have no
retry policy, and clients and backends raise the first error. Repeating layers multiply: a channel made three attempts
inside each of a client's, a client a hundred inside each of a turn's
(docs/adr/0169-one-owner-of-retrying-for-each-hop.md).

Three kinds of faults may pass:

    away       the service cannot be reached: it restarts, or its machine is gone
    reported   the service answers that it is unavailable: another replica may serve
    timeout    no answer came by the deadline: the service may be frozen, and the call may have been executed

Only calls whose repetition has no second effect are repeated (`Row.is_sent_again` in rpc/services.py). Three things
below a call are no retries, because no server has worked on the request: HTTP/2 sends a request again that the server
has not accepted (GOAWAY, REFUSED_STREAM); HTTP/1.1 sends one again for which it took a connection that the server had
closed while it was idle; and a lost connection is made again with a backoff.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto
from typing import NamedTuple, TypeVar

from antiphon_core.errors import AntiphonError, Timeout, Unavailable
from antiphon_core.limits import RESTART_WAIT_S

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a call of one hop is repeated. A limit of 0 means that the call is not repeated after such a fault.

    Pauses grow from `first_s` to `most_s`, each twice the one before, less up to a quarter at random, so that the
    callers of a service that comes back do not all call at once."""

    for_s: float = math.inf
    """How long after the first failure another attempt is planned. The last one begins at most a pause later."""
    timeout_for_s: float | None = None
    """The limit for a timeout, if it differs."""
    attempts_max: float = math.inf
    reported_attempts_max: float = math.inf
    """The attempts at a call whose service reports its fault. A number and not a time, because a store whose database
    is frozen takes seconds to report it."""
    first_s: float = 0.1
    most_s: float = 1.6
    is_shared: bool = False
    """Whether the limits count from the beginning of the outage, for all calls of the hop together: once a service has
    been away for that long, every call fails at once, and no requests pile up."""
    hedges: int = 0
    """The copies of the first attempt that are sent if it has no answer after `hedge_after_s`; the first answer
    counts."""
    hedge_after_s: float = 1.0

    def allows(self, fault: AntiphonError, *, failures: int, failing_s: float) -> bool:
        """Whether another attempt follows this fault. `failures`: how many came in a row, with this one; `failing_s`:
        the time since the first of them, or since the outage began."""
        is_reported = isinstance(fault, Unavailable) and not fault.is_away
        if failures >= min(self.attempts_max, self.reported_attempts_max if is_reported else math.inf):
            return False
        if isinstance(fault, Timeout) and self.timeout_for_s is not None:
            return failing_s < self.timeout_for_s
        return failing_s < self.for_s

    def pauses_s(self, uniform: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
        """Yields the pauses, without an end."""
        pause_s = self.first_s
        while True:
            yield pause_s * uniform(0.75, 1.0)
            pause_s = min(2 * pause_s, self.most_s)


# ---- the policies ----


class Retry(StrEnum):
    """The policies for methods of the store; the table of methods names one for each (rpc/methods.py)."""

    CALL = auto()
    """A caller waits for the answer."""
    KEEP = auto()
    """A running turn writes what must not be lost."""
    ONCE = auto()
    """The caller repeats it anyway, at a pace of its own: leases are renewed."""


ONCE = RetryPolicy(attempts_max=1)
# A reported fault is tried twice more, maybe at other replicas. A frozen service is not waited for.
CALL = RetryPolicy(RESTART_WAIT_S, timeout_for_s=0.0, reported_attempts_max=3, first_s=0.05, most_s=0.2, is_shared=True)
STORE: Mapping[Retry, RetryPolicy] = {
    Retry.CALL: CALL,
    # Longer than a restart of the store, or a failover of its database, takes. Then a turn ends, or waits for room.
    Retry.KEEP: RetryPolicy(for_s=10.0),
    Retry.ONCE: ONCE,
}
TRANSLATOR_CALL = replace(CALL, hedges=2)
"""Calls that change nothing. A frozen translator keeps its connections, so only the missing answer shows that it is
frozen; a long prompt may take as long, so the first call is not given up. Calls go to replicas round robin, but calls
of other tasks come in between: of two hedges at least one avoids the frozen replica."""
GENERATION = CALL
"""A generation that has sent nothing. It is not hedged: two engines would work on one turn."""
TAKEOVER = RetryPolicy(attempts_max=4)
"""A generation that has begun: another translator continues behind its last token."""
ATTACH = RetryPolicy(attempts_max=4)
"""A call of a tool whose stream broke: the client asks for its end, and never begins it again."""
FOLLOW = RetryPolicy(for_s=300.0)
"""The reader of an event log that has begun continues behind its last event. Its client is sent comments meanwhile, and
can resume a stream that is cut off in the end."""
ENDPOINTS = RetryPolicy(attempts_max=4)
"""A generation whose endpoint is lost is begun, or continued, on another endpoint."""
JOB = RetryPolicy(for_s=300.0, first_s=0.5, most_s=15.0)
"""The pauses between the attempts at a background turn whose translator or engine is unavailable. When they add up to
more than `for_s`, the turn ends as failed. A worker that dies uses up one of the job's attempts
(background_policy.py)."""


class Hop(NamedTuple):
    """One hop: what is called, and the module that repeats the call."""

    called: str
    owner: str
    policies: tuple[RetryPolicy, ...]


HOPS = (
    Hop("the store", "antiphon_edge.store_calls", tuple(STORE.values())),
    Hop("a translator", "antiphon_translator.client", (TRANSLATOR_CALL, GENERATION)),
    Hop("the tools service", "antiphon_tools.client", (CALL, ATTACH)),
    Hop("an engine", "antiphon_translator.engines.endpoints", (ENDPOINTS,)),
    # Three exceptions above a hop. None repeats a call: streams are continued from another position, and an attempt at
    # a job is a whole turn, maybe of another worker.
    Hop("a translator, once a generation has begun", "antiphon_edge.turns.generation", (TAKEOVER,)),
    Hop("the store, once a stream of events has begun", "antiphon_edge.turns.event_logs", (FOLLOW,)),
    Hop("the model of a background turn", "antiphon_edge.background.background_policy", (JOB,)),
)
"""Calls of other hops are not repeated: calls of tool servers, health checks, quotas, downloads of media, the store's
database. Three other loops repeat no failed call: a follower waits for a log to appear, a request waits for the
response of an earlier one with its key, and the store decides again when another writer has changed a row."""


# ---- the loop ----


@dataclass(frozen=True, slots=True)
class Pacing:
    """The clock, the sleep and the jitter of retries. Tests pass their own."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep)
    uniform: Callable[[float, float], float] = random.uniform


PACING = Pacing()


class Retrier:
    """Repeats calls of one service, for one process and event loop. All its calls share the time of an outage."""

    def __init__(self, service: type[Unavailable], pacing: Pacing = PACING) -> None:
        """`service`: the error of calls that cannot reach the service."""
        self.service = service
        self.pacing = pacing
        self.outage_since_s: float | None = None

    async def run(self, call: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
        """Returns the result of `call`, or raises its error after the last attempt that `policy` allows."""
        attempts: Attempts | None = None
        while True:
            try:
                answer = await (_hedge(call, policy) if policy.hedges and attempts is None else call())
            except AntiphonError as fault:
                attempts = attempts or Attempts(self, policy)
                if not await attempts.paused_after(fault):
                    raise
            else:
                self.outage_since_s = None
                return answer

    def note_failure(self, fault: AntiphonError) -> float | None:
        """Returns when the outage began; None: the error is an answer of the service, or of one behind it."""
        if not isinstance(fault, self.service) and type(fault) not in (Unavailable, Timeout):
            self.outage_since_s = None
        elif self.outage_since_s is None:
            self.outage_since_s = self.pacing.now_s()
        return self.outage_since_s


class Attempts:
    """The attempts at one call, for a caller with a loop of its own, such as a generator."""

    def __init__(self, retrier: Retrier, policy: RetryPolicy) -> None:
        self.failures = 0
        """Failures since the last answer."""
        self._retrier = retrier
        self._policy = policy
        self._pauses_s = policy.pauses_s(retrier.pacing.uniform)

    def note_answer(self) -> None:
        """An answer came: the next failure begins a new outage."""
        self._retrier.outage_since_s = None
        if self.failures:
            self.failures = 0
            self._pauses_s = self._policy.pauses_s(self._retrier.pacing.uniform)

    async def paused_after(self, fault: AntiphonError) -> bool:
        """Waits before the next attempt, and returns True. False: the policy allows none, or the service answered."""
        pacing, outage_since_s = self._retrier.pacing, self._retrier.note_failure(fault)
        if outage_since_s is None:
            return False
        now_s = pacing.now_s()
        if not self.failures:
            self._failing_since_s = now_s
        self.failures += 1
        since_s = outage_since_s if self._policy.is_shared else self._failing_since_s
        if not self._policy.allows(fault, failures=self.failures, failing_s=now_s - since_s):
            return False
        await pacing.sleep(next(self._pauses_s))
        return True


async def _hedge(call: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """Returns or raises the result of the first call that ends. The other calls are cancelled."""
    calls = {asyncio.ensure_future(call())}
    try:
        done, _ = await asyncio.wait(calls, timeout=policy.hedge_after_s)
        if not done:
            calls |= {asyncio.ensure_future(call()) for _ in range(policy.hedges)}
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for each in calls:
            each.cancel()
