"""The atoms of lineage that write: forks and statuses. They run inside a transaction of the writer."""

from __future__ import annotations

import sqlite3

from antiphon_core.errors import ResponseNotFound
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import Precondition, Record, Stamp, Status
from antiphon_store.backends import admission, forking
from antiphon_store.backends import status as statuses
from antiphon_store.backends.places import depth_of
from antiphon_store.backends.sqlite import atoms, fences, sessions
from antiphon_store.backends.sqlite.lineage_queries import QUERIES

_READ_HEADER = QUERIES["read_header"]
_WRITE_STATUS = QUERIES["write_status"]
_READ_ORIGIN = QUERIES["read_origin"]
_READ_FORK = QUERIES["read_fork"]
_WRITE_FORK = QUERIES["write_fork"]


def change_status(
    connection: sqlite3.Connection, tenant: str, response_id: str, status: Status, condition: Precondition, now_ms: int
) -> Stamp:
    existing = _header(connection, tenant, response_id, now_ms)
    if statuses.is_changed(existing, status, condition):
        return admission.stamp_of(existing)
    fences.require(connection, tenant, condition.fence, now_ms)
    admission.require_precondition(existing, condition)
    record = statuses.changed(existing, status, now_ms)
    columns = {"status": record.status.value, "version": record.version, "updated_at_ms": record.updated_at_ms}
    connection.execute(_WRITE_STATUS, {"tenant": tenant, "id": response_id, **columns})
    return admission.stamp_of(record)


def fork(connection: sqlite3.Connection, tenant: str, source: ForkSource, new_session_id: str, now_ms: int) -> Fork:
    made = _made_before(connection, tenant, source, new_session_id)
    if made is not None:
        return made
    fork_ = Fork(new_session_id, _source_head(connection, tenant, source, now_ms))
    forking.require_kinship(new_session_id, fork_.head_id)
    current = sessions.read_current(connection, tenant, new_session_id, now_ms)
    if current.head_id == fork_.head_id:
        return fork_
    forking.require_free(new_session_id, current, head_id=current.head_id, now_ms=now_ms)
    stored = sessions.read(connection, tenant, new_session_id)  # with its former head, if its time is over
    atoms.move_head(connection, tenant, new_session_id, stored, fork_.head_id, now_ms)
    connection.execute(_WRITE_FORK, {**_fork_columns(tenant, source, new_session_id), "head_id": fork_.head_id})
    return fork_


def _header(connection: sqlite3.Connection, tenant: str, response_id: str, now_ms: int) -> Record:
    """A readable record without its content. ResponseNotFound."""
    row = connection.execute(_READ_HEADER, {"tenant": tenant, "id": response_id, "now_ms": now_ms}).fetchone()
    if row is None:
        raise ResponseNotFound.of(response_id)
    status, version, place, created_at_ms, updated_at_ms, expires_at_ms = row
    return Record(
        id=response_id,
        status=Status(status),
        body=b"",
        version=version,
        depth=depth_of(place),
        created_at_ms=created_at_ms,
        updated_at_ms=updated_at_ms,
        expires_at_ms=expires_at_ms,
    )


def _made_before(connection: sqlite3.Connection, tenant: str, source: ForkSource, new_session_id: str) -> Fork | None:
    row = connection.execute(_READ_FORK, {"tenant": tenant, "session_id": new_session_id}).fetchone()
    if row is None:
        return None
    session_id, response_id, head_id = row
    same = ForkSource(session_id or None, response_id or None) == source
    return Fork(new_session_id, head_id) if same else None


def _source_head(connection: sqlite3.Connection, tenant: str, source: ForkSource, now_ms: int) -> str:
    head_id = status = made_in = None
    if source.session_id is not None:
        head_id = sessions.read_current(connection, tenant, source.session_id, now_ms).head_id
    if source.up_to_response_id is not None:
        arguments = {"tenant": tenant, "id": source.up_to_response_id, "now_ms": now_ms}
        status, made_in = connection.execute(_READ_ORIGIN, arguments).fetchone() or (None, None)
    return forking.head_of(source, session_head_id=head_id, status=Status(status) if status else None, made_in=made_in)


def _fork_columns(tenant: str, source: ForkSource, new_session_id: str) -> dict[str, str]:
    return {
        "tenant": tenant,
        "session_id": new_session_id,
        "source_session_id": source.session_id or "",
        "source_response_id": source.up_to_response_id or "",
    }
