"""Writing, changing and removing single responses, also at the end of a turn.

A write is one of three, in this order:

    replay    The record already has this content, at the version that this write would make: a retry whose first
              answer got lost. Nothing changes, and the result is the existing stamp.
    replace   The record is readable, and the precondition requires that it is (version, statuses).
    insert    The record is not readable, and the precondition does not require that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from antiphon_core.errors import (
    AlreadyExists,
    InvalidRequest,
    LimitExceeded,
    ResponseNotFound,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import DISPATCH_QUEUE, JobDraft, JobOutcome
from antiphon_core.ports.store import (
    FRAME_END,
    NO_PRECONDITION,
    UNFINISHED,
    ApprovalDraft,
    Fence,
    LogFrames,
    Precondition,
    Record,
    Stamp,
    Status,
    TurnJob,
)
from antiphon_store.decisions import approvals, jobs, leases, logs, nodes
from antiphon_store.rows.model import Add, Condition, Get, Grow, Index, Kind, Now, Payload, Ref, Row, made_id
from antiphon_store.rows.view import AT_ONCE, Finish, View, answer, nothing

ABSENT = "absent"  # the status of a missing record in StatusMismatch


@dataclass(frozen=True, slots=True)
class Write:
    """A record to write. `ttl_ms` is its lifetime from now; None means for ever. `item_ids` are the distinct ids of its
    items, for the index of items. `log_frames` is appended and `job` is added in the same step, unless the write is a
    replay; `log_ttl_ms` is the lifetime of the log from now, `job_ttl_ms` that of the job after its end.
    `session_responses_max` is the limit of readable responses that were made in the session."""

    record: Record
    precondition: Precondition = NO_PRECONDITION
    ttl_ms: int | None = None
    item_ids: tuple[str, ...] = ()
    log_frames: LogFrames | None = None
    log_ttl_ms: int = 0
    job: TurnJob | None = None
    job_ttl_ms: int = 0
    session_responses_max: int | None = None
    ends_job: bool = False
    """Whether the job of the precondition's fence ends as succeeded in the same step."""
    lineage: bytes = b""
    """The lineage of the response, which only later turns read."""
    lineage_key: str = ""
    """The key of the index under which turns that name no predecessor find the lineage."""
    approvals: Sequence[ApprovalDraft] = ()
    """Those that the response asks for."""
    holds: Sequence[str] = ()
    """Those that the response took, with a job."""


class OccupiedId(Exception):
    """The id of a new record is that of an unreadable node. The caller deletes the node if nothing needs it."""


class CrowdedSession(Exception):
    """The session has as many entries in MADE as it may have responses. The caller counts how many have expired."""


def get(view: View, response_id: str) -> Finish[Record]:
    """Reads a readable record. ResponseNotFound."""
    view.plan_read(Kind.NODE, response_id)
    require_readable(view, response_id)
    return view.answer_from(partial(nodes.to_record, response_id), Get(Ref(Kind.NODE, response_id), Payload.ALL))


def lineage_of(view: View, response_id: str) -> Finish[bytes]:
    """Reads the lineage of a readable response; empty if it has none. ResponseNotFound."""
    require_readable(view, response_id)
    return view.answer_from(
        lambda row: row.items if row is not None else b"", Get(Ref(Kind.LINEAGE, response_id), Payload.ITEMS)
    )


def is_readable(view: View, response_id: str) -> bool:
    """Tests that a response can be read."""
    return (
        view.test(Kind.NODE, response_id, Condition.IS, "deleted", 0)  # false for a missing node
        and view.test(Kind.NODE, response_id, Condition.AHEAD, "expires")
    )


def require_readable(view: View, response_id: str) -> None:
    """ResponseNotFound: a response cannot be read."""
    if not is_readable(view, response_id):
        raise ResponseNotFound.of(response_id)


def put(view: View, write: Write, *, fence: Fence | None = None) -> Finish[Stamp]:
    """Inserts or replaces one record. With a `fence`, which must be live in addition to the precondition's, the write
    ends a turn: the record becomes the head of the fence's session, and the lease is released.

    ResponseNotFound: the parent is not readable. AlreadyExists, VersionMismatch, StatusMismatch, StaleFence.
    PositionMismatch, LogClosed: of the end of the log. OccupiedId, CrowdedSession: the caller clears up and retries."""
    record, condition = write.record, write.precondition
    fences = list(filter(None, (fence, condition.fence)))
    must_exist = _names_a_state(condition)
    is_new = not must_exist and view.test(Kind.NODE, record.id, Condition.ABSENT)
    row = None if is_new else view.need_all(*_rows_of(write))[0]
    is_replay = row is not None and _is_replay(view, row, write)
    if row is not None and is_replay:
        finish = answer(nodes.stamp_of(row))
    else:
        for each in fences:
            leases.require_fence(view, each)
        if row is not None:
            finish = _replace(view, write, row)
        else:
            if must_exist:
                require_precondition(record.id, None, condition)
            if record.parent_id is not None and not is_readable(view, record.parent_id):
                _require_kept_head(view, record.parent_id, fences)
            finish = _insert(view, write)
    if fence is not None:
        _end_turn(view, fence, record, is_replay=is_replay)
    return finish


def delete(view: View, response_id: str, precondition: Precondition) -> Finish[None]:
    """Makes a readable record unreadable. ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""
    row = require(view, response_id)
    if precondition.fence is not None:
        leases.require_fence(view, precondition.fence)
    require_precondition(response_id, row, precondition)
    view.set(Kind.NODE, response_id, deleted=1)
    approvals.end_of(view, row)
    view.file(Index.ENDS, "", f"{Kind.NODE}/{response_id}")
    _unlist(view, response_id, row)
    return nothing


def update_status(view: View, response_id: str, status: Status, precondition: Precondition) -> Finish[Stamp]:
    """Moves a readable record to another status. ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""
    row = require(view, response_id)
    fields, expected = row.fields, precondition.version
    if fields["status"] == status.value and (expected is None or 0 < expected == fields["version"] - 1):
        return answer(nodes.stamp_of(row))
    if precondition.fence is not None:
        leases.require_fence(view, precondition.fence)
    require_precondition(response_id, row, precondition)
    view.set(Kind.NODE, response_id, status=status.value, version=Add(1), updated=Now())
    return _stamp(view, response_id)


def require(view: View, response_id: str) -> Row:
    """The row of a readable record. ResponseNotFound."""
    row = view.need(Kind.NODE, response_id)
    if row is None or not is_readable(view, response_id):
        raise ResponseNotFound.of(response_id)
    return row


def require_precondition(response_id: str, row: Row | None, condition: Precondition) -> None:
    """Checks version and status of a readable record; `row` is None if there is none. VersionMismatch,
    StatusMismatch."""
    version, status = (row.fields["version"], row.fields["status"]) if row is not None else (0, ABSENT)
    if condition.version is not None and condition.version != version:
        raise VersionMismatch.of(response_id, expected=condition.version, actual=version)
    is_excluded = status in condition.unless_statuses or (row is None and bool(condition.unless_statuses))
    if is_excluded or (condition.statuses and status not in condition.statuses):
        raise StatusMismatch.of(response_id, actual=status)


def may_follow(row: Row, condition: Precondition, now_ms: int) -> bool:
    """Whether a record may be one that was written under this condition, and was changed or deleted after that."""
    written_version = (condition.version or int(_names_a_state(condition))) + 1
    return bool(row.fields["version"] >= written_version + nodes.is_readable(row, now_ms))


def _rows_of(write: Write) -> Sequence[tuple[Kind, str]]:
    """The rows that decide on a write whose node may exist, which are read in one step: first its node."""
    node = (Kind.NODE, write.record.id)
    return (node, (Kind.JOB, write.record.id)) if write.ends_job else (node,)


def _names_a_state(condition: Precondition) -> bool:
    """Whether the precondition requires that the record exists."""
    return bool(condition.version or condition.statuses or condition.unless_statuses)


def _insert(view: View, write: Write) -> Finish[Stamp]:
    record = write.record
    if write.log_frames is not None or write.job is not None or write.ends_job:
        _write_beside(view, write)
    if record.session_id is not None and write.session_responses_max is not None:
        _require_room(view, record.session_id, write.session_responses_max)
    fields, items, body = nodes.write_node(record, write.ttl_ms)
    asked = _ask(view, write) if write.approvals else {}
    view.grow(Grow(record.id, record.parent_id, {**fields, **asked, "version": 1}, items, body))
    if write.lineage:
        _put_lineage(view, write)
    _file(view, write)
    return _stamp(view, record.id)


def _replace(view: View, write: Write, row: Row) -> Finish[Stamp]:
    """Replaces the record of a node that exists. OccupiedId: the node cannot be read."""
    record = write.record
    if not is_readable(view, record.id):
        require_precondition(record.id, None, write.precondition)
        raise OccupiedId
    _require_admission(row, write)
    return _overwrite(view, write, row)


def _end_turn(view: View, fence: Fence, record: Record, *, is_replay: bool) -> None:
    """Makes the record the head of the fence's session, and releases the lease."""
    session_id = fence.session_id
    if is_replay:  # of a commit, which released the lease, or of a put, which did not
        view.need(Kind.SESSION, session_id)
        if not leases.tests_held(view, fence):
            return
    if not view.test(Kind.SESSION, session_id, Condition.IS, "head", record.parent_id):
        _file_former_head(view, session_id, record)
    leases.give_back(view, session_id, head=record.id)


def _file_former_head(view: View, session_id: str, record: Record) -> None:
    """Makes a former head that is not the parent of the new one, and may be needed no more, a candidate for cleanup."""
    session = view.need(Kind.SESSION, session_id)
    former = session.fields.get("head") if session is not None else None
    if former not in (None, record.id):
        view.file(Index.ENDS, "", f"{Kind.NODE}/{former}")


def _overwrite(view: View, write: Write, row: Row) -> Finish[Stamp]:
    """Replaces the record of a readable node."""
    record = write.record
    _write_beside(view, write)
    fields, items, body = nodes.write_node(write.record, write.ttl_ms)
    asked = _ask(view, write) if write.approvals else {}
    fields |= {**asked, "version": Add(1), "updated": Now()}
    view.overwrite(Kind.NODE, record.id, fields, items, body)
    _replace_lineage(view, write, row)
    if row.fields["session"] != record.session_id:
        _unlist(view, record.id, row)
        if record.session_id is not None:
            entry = made_id(row.fields["depth"], record.id)
            view.file(Index.MADE, record.session_id, entry, row.fields["created"])
    for item_id in set(nodes.item_ids(row)).difference(write.item_ids):
        view.unfile(nodes.item_index(item_id, record.id), item_id, record.id)
    _file(view, write, row.fields["created"])
    return _stamp(view, record.id)


def _ask(view: View, write: Write) -> dict[str, list[str]]:
    """Writes the approvals that the response asks for. Returns the field of its node that names them."""
    approvals.ask(view, write.approvals, write.record.id, write.ttl_ms)
    return {"approvals": [each.id for each in write.approvals]}


def _put_lineage(view: View, write: Write) -> None:
    key = write.lineage_key
    view.put(Kind.LINEAGE, write.record.id, {"key": key} if key else {}, write.lineage)
    if key:
        view.file(Index.RESENT, key, write.record.id)


def _replace_lineage(view: View, write: Write, row: Row) -> None:
    """Writes the lineage of a record that replaces another, or deletes it: its ids are the text of the former output. A
    response that has not ended has none."""
    if Status(row.fields["status"]) not in UNFINISHED:
        former = view.need(Kind.LINEAGE, write.record.id)
        drop_lineage(view, write.record.id, former)
    if write.lineage:
        _put_lineage(view, write)


def drop_lineage(view: View, response_id: str, lineage: Row | None) -> None:
    """Deletes the lineage of a response, and the entry under its key."""
    if lineage is None:
        return
    view.delete(Kind.LINEAGE, response_id)
    if key := lineage.fields.get("key"):
        view.unfile(Index.RESENT, key, response_id)


def _write_beside(view: View, write: Write) -> None:
    """Writes the events and the job that come with a record. PositionMismatch, LogClosed, AlreadyExists, and the errors
    of `approvals.keep`."""
    record, end, job = write.record, write.log_frames, write.job
    if end is not None:
        count = end.frames.count(FRAME_END)
        append = EventAppend(record.id, end.expected_position, count, end.frames, terminal=job is None)
        logs.extend(view, append, ttl_ms=write.log_ttl_ms)
    if write.ends_job and write.precondition.fence is not None:
        jobs.settle(view, write.precondition.fence, JobOutcome.SUCCEEDED, "")
    if job is not None:
        draft = JobDraft(record.id, DISPATCH_QUEUE, job.payload, max_attempts=job.max_attempts)
        jobs.enqueue(view, draft, retention_ms=write.job_ttl_ms)
        fence = write.precondition.fence
        if fence is not None and leases.tests_held(view, fence):
            view.set(Kind.SESSION, fence.session_id, lease_until=Now(job.lease_ttl_ms))
        if write.holds:
            approvals.keep(view, write.holds, record.id)


def _stamp(view: View, response_id: str) -> Finish[Stamp]:
    return view.answer_from(nodes.stamp_of, Get(Ref(Kind.NODE, response_id)))


def _require_admission(row: Row, write: Write) -> None:
    """Checks that a write may replace a readable record."""
    record, condition = write.record, write.precondition
    if not _names_a_state(condition):
        raise AlreadyExists.of(record.id)
    require_precondition(record.id, row, condition)
    if record.parent_id != row.fields["parent"]:
        raise InvalidRequest(
            f"'{record.id}' continues another response; the parent of a stored response cannot change.",
            field="record.parent_id",
        )


def _require_kept_head(view: View, parent_id: str, fences: Sequence[Fence]) -> None:
    """Checks a parent that cannot be read: the holder of a session's lease may continue its head even if the head was
    deleted. ResponseNotFound."""
    is_kept = view.need(Kind.NODE, parent_id) is not None and view.test(
        Kind.NODE, parent_id, Condition.AHEAD, "expires"
    )
    if not is_kept or parent_id not in _heads(view, fences):
        raise ResponseNotFound.of(parent_id)


def _heads(view: View, fences: Sequence[Fence]) -> list[str | None]:
    sessions = [view.need(Kind.SESSION, each.session_id) for each in fences]
    return [session.fields.get("head") for session in sessions if session is not None]


def _require_room(view: View, session_id: str, most: int) -> None:
    """CrowdedSession: the session may have too many responses."""
    if view.is_crowded:
        raise CrowdedSession
    view.fewer(Index.MADE, session_id, most)


def too_many(session_id: str, most: int, field: str) -> LimitExceeded:
    return LimitExceeded(
        f"Session '{session_id}' has {most} responses, which is the limit. Delete some, fork it, or begin another "
        "session.",
        field=field,
        limit=str(most),
    )


def _is_replay(view: View, row: Row, write: Write) -> bool:
    if not is_readable(view, write.record.id):
        return False
    condition = write.precondition
    if condition.version not in (None, row.fields["version"] - 1):
        return False
    fields, items, body = nodes.write_node(write.record, write.ttl_ms)
    same = ("parent", "session", "status", "input_bytes")
    return all(fields[name] == row.fields[name] for name in same) and (items, body) == (row.items, row.body)


def _file(view: View, write: Write, born_at: int | Now = AT_ONCE) -> None:
    """Files the items of a record, and the end of its life."""
    for item_id in write.item_ids:
        view.file(nodes.item_index(item_id, write.record.id), item_id, write.record.id, born_at)
    if write.ttl_ms is not None:
        view.file(Index.ENDS, "", f"{Kind.NODE}/{write.record.id}", Now(write.ttl_ms))


def _unlist(view: View, response_id: str, row: Row) -> None:
    session_id = row.fields["session"]
    if session_id is not None:
        view.unfile(Index.MADE, session_id, made_id(row.fields["depth"], response_id))
