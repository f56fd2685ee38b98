"""Rows of idempotency keys as `idempotency.KeyUse`. What follows from one, `backends/idempotency.py` says."""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from antiphon_core.ports.store import Stamp
from antiphon_store.backends import named_queries
from antiphon_store.backends.idempotency import KeyUse

_QUERIES = named_queries.parse(
    (files("antiphon_store.backends.sqlite") / "idempotency.sql").read_text(encoding="utf-8")
)
_READ = _QUERIES["read_key"]
_WRITE = _QUERIES["write_key"]
_DROP = _QUERIES["drop_key"]
_DROP_EXPIRED = _QUERIES["drop_expired_keys"]

_NO_STAMP = dict.fromkeys(("version", "depth", "created_at_ms", "updated_at_ms", "record_expires_at_ms"))


def read(connection: sqlite3.Connection, tenant: str, key: str) -> KeyUse | None:
    """What is stored of a key, expired or not."""
    row = connection.execute(_READ, {"tenant": tenant, "key": key}).fetchone()
    if row is None:
        return None
    response_id, fingerprint, claimed_until_ms, expires_at_ms, *stamp = row
    return KeyUse(
        response_id, fingerprint, claimed_until_ms, expires_at_ms, Stamp(*stamp) if stamp[0] is not None else None
    )


def write(connection: sqlite3.Connection, tenant: str, key: str, use: KeyUse, now_ms: int) -> None:
    columns = {
        "response_id": use.response_id,
        "fingerprint": use.fingerprint,
        "claimed_until_ms": use.claimed_until_ms,
        "expires_at_ms": use.expires_at_ms,
        **(_NO_STAMP if use.stamp is None else _stamp_columns(use.stamp)),
    }
    connection.execute(_DROP_EXPIRED, {"now_ms": now_ms})
    connection.execute(_WRITE, {"tenant": tenant, "key": key, **columns})


def drop(connection: sqlite3.Connection, tenant: str, key: str) -> None:
    connection.execute(_DROP, {"tenant": tenant, "key": key})


def _stamp_columns(stamp: Stamp) -> dict[str, int | None]:
    return {
        "version": stamp.version,
        "depth": stamp.depth,
        "created_at_ms": stamp.created_at_ms,
        "updated_at_ms": stamp.updated_at_ms,
        "record_expires_at_ms": stamp.expires_at_ms,
    }
