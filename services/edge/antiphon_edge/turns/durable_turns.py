"""Durable turns: turns that go on when their client, their edge or their worker is gone.

A durable turn has a job in the store. The process that holds the lease of the job runs the turn, and every write of the
turn (its event log, its record, the end of the job) carries the fence of that lease. Keyed turns and background turns
are the same machine; they differ in their first holder, and in who takes over:

    keyed       the edge that accepted the request holds the job from the start. After its death an edge with a request
                for the same idempotency key takes the turn over, never a worker: workers do not know the key.
    background  nobody holds the job at first. Any worker claims it, at first and after the death of another worker.

States, by the rows that a process finds:

    state   | rows                        | who moves it, by which event                    | what a crash leaves
    --------+-----------------------------+-------------------------------------------------+--------------------
    claimed | key (keyed turns only)      | its edge queues the job -> held                 | claimed: the next
            |                             | its edge gives the key back -> nothing          | request frees the
            |                             |                                                 | key (StaleKey)
    waiting | job queued, or the lease of | a worker, or an edge with the key, claims it    | waiting
            | its holder has expired      | -> held                                         |
            |                             | a client cancels it (background) -> over        |
    held    | job running                 | the holder commits the record -> ended          | waiting, when the
            |                             | the holder gives the job back -> waiting        | lease has expired;
            |                             | the holder drops a turn without events, and its | the log is kept
            |                             | key -> nothing                                  |
    over    | job failed or cancelled, or | a reader writes the end (background) -> ended   | over: the next
            | gone, without a record of   | keyed turns have no record: the next request    | reader does it
            | an end                      | frees the key                                   |
    ended   | record with an end, log     | nobody; the commit has ended the job, except    | ended: the next
            | with its terminal event     | that of a cancelled response: its holder does   | holder settles it

A turn without a key that calls tools of servers is a keyed turn whose key nobody can repeat: when its holder is gone,
the next request that reads or continues its response ends it as failed (lost_turns.py).

A takeover reads the log, leases the session of the turn again, and continues the generation behind the token ids of the
log. A turn that has no output in its log begins anew.

Every reader follows the log. When the log is silent, the reader looks at the job, and `STEPS` says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from antiphon_core.errors import JobNotFound
from antiphon_core.ports.jobs import DISPATCH_QUEUE, JobDescription, Jobs, JobState
from antiphon_edge.turns.turn_watch import Delivery


class Step(StrEnum):
    """The next step of a reader whose log is silent."""

    WAIT = "wait"
    """Another process runs the turn, or will."""
    TAKE_OVER = "take over"
    """Nobody runs the turn: the reader's edge does."""
    READ_END = "read the end"
    """Nobody will run the turn: its log, or its record, has the end if there is one."""
    END_AS_FAILED = "end as failed"
    END_AS_CANCELLED = "end as cancelled"


STEPS: Mapping[Delivery, Mapping[JobState | None, Step]] = {
    Delivery.KEYED: {
        JobState.QUEUED: Step.TAKE_OVER,
        JobState.RUNNING: Step.WAIT,
        JobState.SUCCEEDED: Step.READ_END,
        JobState.FAILED: Step.READ_END,
        JobState.CANCELLED: Step.READ_END,
        None: Step.READ_END,
    },
    Delivery.BACKGROUND: {
        JobState.QUEUED: Step.WAIT,
        JobState.RUNNING: Step.WAIT,
        JobState.SUCCEEDED: Step.READ_END,
        JobState.FAILED: Step.END_AS_FAILED,
        JobState.CANCELLED: Step.END_AS_CANCELLED,
        None: Step.END_AS_FAILED,
    },
}
"""By the state of the job; None: there is no such job, because it was not queued yet or was deleted."""


async def next_step(
    jobs: Jobs, delivery: Delivery, tenant: str, response_id: str
) -> tuple[Step, JobDescription | None]:
    """The next step of a reader whose log is silent, and the job that it follows from."""
    try:
        job = await jobs.describe_job(tenant, response_id)
    except JobNotFound:
        return STEPS[delivery][None], None
    if (job.queue == DISPATCH_QUEUE) is not (delivery is Delivery.BACKGROUND):
        return STEPS[delivery][None], None
    return STEPS[delivery][job.state], job
