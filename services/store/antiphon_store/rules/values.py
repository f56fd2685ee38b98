"""Checks of the ports' dataclasses, member by member."""

from __future__ import annotations

from typing import Any

from antiphon_core import limits
from antiphon_core.ids import tree_tag
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.quotas import Draw, QuotaRequest
from antiphon_core.ports.store import UNFINISHED, LogEnd, Record, TurnCommit, TurnRequest
from antiphon_store.frames import FRAME_END
from antiphon_store.rules.common import (
    INT64_MAX,
    check_given,
    check_holder,
    check_key,
    check_lease_ttl,
    check_queue,
    check_range,
    check_response_id,
    check_session_id,
    check_size,
    check_ttl,
    each_member,
    each_of,
    invalid,
    name_up_to,
    part,
    require_owner,
    within,
)

FINGERPRINT_BYTES = 32
TOKEN_ID_MAX = 2**32 - 1
UINT32_MAX = 2**32 - 1
UNITS_MIN = 1e-6  # rounding errors of sums hide smaller amounts
UNITS_MAX = 10**15  # above this, floating point does not count single units

# ---- Records ----


def size_of(record: Record) -> int:
    """The bytes of body and items."""
    return len(record.body) + len(record.input_items) + len(record.output_items)


def _check_tree_and_size(record: Record, field: str) -> None:
    """Checks that a response's parent and conversation have its tree tag, and that it is not too large."""
    check_size("The response is", size_of(record), limits.RECORD_BYTES_MAX, field)
    for name, relative in (("parent_id", record.parent_id), ("session_id", record.session_id)):
        if relative is not None and tree_tag(relative) not in (None, tree_tag(record.id)):
            at = part(field, name)
            raise invalid(at, f"'{at}' belongs to another tree than 'record.id': their tags differ.")
    if record.parent_id == record.id:
        raise invalid(part(field, "parent_id"), "A response cannot continue itself.")


check_record = each_member(
    _check_tree_and_size,
    id=check_response_id,
    parent_id=check_response_id,
    session_id=check_session_id,
    input_items=check_given,
    output_items=check_given,
)
_check_token = within(1, INT64_MAX)
check_fence = each_member(session_id=check_session_id, token=_check_token)
check_job_fence = each_member(session_id=check_response_id, token=_check_token)  # it has the job's id as `session_id`
check_precondition = each_member(version=within(0, INT64_MAX), fence=check_fence)

# ---- Jobs and event logs ----

_check_attempts = within(1, limits.JOB_ATTEMPTS_ITEMS_MAX)


def _check_payload(payload: bytes, field: str) -> None:
    check_size("The payload is", len(payload), limits.JOB_PAYLOAD_BYTES_MAX, field)


check_draft = each_member(
    id=check_response_id,
    queue=check_queue,
    max_attempts=_check_attempts,
    run_after_ms=within(0, limits.JOB_DELAY_MS_MAX),
    payload=_check_payload,
)
_check_turn_job = each_member(max_attempts=_check_attempts, lease_ttl_ms=check_lease_ttl, payload=_check_payload)


def _check_frames(frames: bytes, field: str) -> None:
    check_size("The frames are", len(frames), limits.APPEND_BYTES_MAX, field)
    if not frames.endswith(FRAME_END):
        raise invalid(field, f"'{field}' must be events, each closed by a blank line.")


def _check_count(append: EventAppend | LogEnd, field: str) -> None:
    """Checks the number of events, which are counted by their blank lines: a resumed read skips events by them."""
    found = append.frames.count(FRAME_END)
    count = append.count if isinstance(append, EventAppend) else found
    check_range(count, 1, limits.APPEND_EVENTS_MAX, part(field, "count"))
    check_range(append.expected_position, 0, INT64_MAX - count, part(field, "expected_position"))
    if found != count:
        at = part(field, "frames")
        raise invalid(at, f"'{at}' must be {count} events, each closed by a blank line, but has {found} blank lines.")


def _check_token_ids(checkpoint: Checkpoint, field: str) -> None:
    ids, at = checkpoint.token_ids, part(field, "token_ids")
    check_range(len(ids), 0, limits.CHECKPOINT_ITEMS_MAX, at)
    for extreme in (min(ids), max(ids)) if ids else ():
        check_range(extreme, 0, TOKEN_ID_MAX, at)


check_append = each_member(
    _check_count,
    response_id=check_response_id,
    frames=_check_frames,
    checkpoint=each_member(_check_token_ids, offset=within(0, INT64_MAX - limits.CHECKPOINT_ITEMS_MAX)),
)
_check_log_end = each_member(_check_count, frames=_check_frames)

# ---- Turns and forks ----


def _check_turn_start(request: TurnRequest, _field: str) -> None:
    if request.previous_response_id is not None and request.session_id is not None:
        text = "'previous_response_id' and 'session_id' exclude each other."
        raise invalid("previous_response_id", text, code="mutually_exclusive_parameters")
    if request.session_id is not None:
        check_holder(request.holder, "holder")
    require_owner(request.idempotency_key, request.response_id)
    if len(request.fingerprint) != FINGERPRINT_BYTES and (request.fingerprint or request.idempotency_key is not None):
        raise invalid("fingerprint", f"'fingerprint' must be {FINGERPRINT_BYTES} bytes, a SHA-256.")


check_turn_request = each_member(
    _check_turn_start,
    previous_response_id=check_response_id,
    session_id=check_session_id,
    lease_ttl_ms=check_lease_ttl,
    wait_ms=within(0, limits.LEASE_WAIT_MS_MAX),
    max_depth=within(1, limits.CHAIN_DEPTH_MAX),
    max_bytes=within(1, limits.CHAIN_BYTES_MAX),
    idempotency_key=check_key,
    response_id=check_response_id,
)


def _check_fence_and_job(commit: TurnCommit, _field: str) -> None:
    record, fence = commit.record, commit.fence
    if fence is not None and fence.session_id != record.session_id:
        raise invalid("fence.session_id", "A turn is committed under the fence of the session that its record names.")
    if commit.job is not None and record.status not in UNFINISHED:
        raise invalid("record.status", "A response with a job must not have ended.")


check_turn_commit = each_member(
    _check_fence_and_job,
    record=check_record,
    ttl_ms=check_ttl,
    idempotency_key=check_key,
    precondition=check_precondition,
    fence=check_fence,
    log_end=_check_log_end,
    job=_check_turn_job,
)


def _check_has_source(source: ForkSource, _field: str) -> None:
    if source.session_id is None and source.up_to_response_id is None:
        raise invalid("session_id", "Name what to fork: 'session_id', 'up_to_response_id' or both.")


check_fork_source = each_member(_check_has_source, session_id=check_session_id, up_to_response_id=check_response_id)

# ---- Quotas ----

_check_name = name_up_to(limits.QUOTA_NAME_CHARS_MAX)


def _check_units(value: float, field: str) -> None:
    if value and not UNITS_MIN <= value <= UNITS_MAX:
        raise invalid(field, f"'{field}' must be 0, or from {UNITS_MIN} to {UNITS_MAX}, but is {value}.")


def _check_bucket(draw: Draw, field: str) -> None:
    if bool(draw.capacity) != bool(draw.per_minute):
        raise invalid(f"{field}.per_minute", f"'{field}' must have both a capacity and a rate, or neither.")
    if draw.at_least > draw.capacity:
        raise invalid(f"{field}.at_least", f"'{field}.at_least' is more than the bucket can hold.")


def _check_unique(ids: Any, field: str) -> None:
    if len(set(ids)) < len(ids):
        raise invalid(field, f"'{field}' has a name twice.")


def _check_slots_once(request: QuotaRequest, _field: str) -> None:
    _check_unique([draw.name for draw in request.draws], "draws")
    held = request.hold.ids if request.hold is not None else ()
    _check_unique(held, "hold.ids")
    _check_slots(request.release, "release_ids")
    _check_unique(request.release, "release_ids")
    if not set(held).isdisjoint(request.release):
        raise invalid("release_ids", "'release_ids' names a slot that 'hold.ids' names, too.")


_check_slots = each_of(_check_name, least=0, most=limits.QUOTA_SLOTS_ITEMS_MAX)
_check_draw = each_member(
    _check_bucket,
    name=_check_name,
    **dict.fromkeys(("amount", "at_least", "capacity", "per_minute"), _check_units),
)
check_quota_request = each_member(
    _check_slots_once,
    draws=each_of(_check_draw, least=0, most=limits.QUOTA_DRAWS_ITEMS_MAX),
    hold=each_member(
        ids=each_of(_check_name, most=limits.QUOTA_SLOTS_ITEMS_MAX),
        most=within(0, UINT32_MAX),
        ttl_ms=check_lease_ttl,
    ),
)
