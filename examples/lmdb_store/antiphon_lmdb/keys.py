"""The keys of the file, and scans over them. Rows and indexes of all tenants lie in one ordered table:

    r kind  0 tenant 0 tree 0 id                a row
    o index 0 tenant 0 tree 0 digest time id    an entry of an index, in its order; the value is empty
    t index 0 tenant 0 tree 0 digest id         the time of that entry

LMDB compares keys as bytes and takes 511 of them; the longest ids, of 260 bytes, leave room. The key of an index may be
longer (an item id has up to 1 KiB), so a digest stands for it. An index of the tenant has no tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TypeAlias

import lmdb

from antiphon_store.rows.model import TENANT_WIDE, Index, Partition, Ref

Transaction: TypeAlias = "lmdb.Transaction[bytes]"


def row_key(partition: Partition, ref: Ref) -> bytes:
    return f"r{ref.kind}\0{partition.tenant}\0{partition.tree}\0{ref.id}".encode()


def entry_keys(partition: Partition, index: Index, key: str) -> tuple[bytes, bytes]:
    """Returns what the keys of entries begin with: those in order of time, and those by id."""
    tree = "" if index in TENANT_WIDE else partition.tree
    scope = f"{index}\0{partition.tenant}\0{tree}\0".encode() + blake2b(key.encode(), digest_size=16).digest()
    return b"o" + scope, b"t" + scope


def scan(transaction: Transaction, prefix: bytes, start: bytes = b"") -> Iterator[bytes]:
    """Yields the rest of each key that begins with `prefix`, from `start` on. Changes of these keys disturb a scan."""
    with transaction.cursor() as cursor:
        has_more = cursor.set_range(prefix + start)
        while has_more and cursor.key().startswith(prefix):
            yield cursor.key()[len(prefix) :]
            has_more = cursor.next()


def scan_back(transaction: Transaction, prefix: bytes, before: bytes = b"\xff" * 16) -> Iterator[bytes]:
    """Yields the same in descending order, below `before`. No id begins with byte 255."""
    with transaction.cursor() as cursor:
        has_more = cursor.prev() if cursor.set_range(prefix + before) else cursor.last()
        while has_more and cursor.key().startswith(prefix):
            yield cursor.key()[len(prefix) :]
            has_more = cursor.prev()


def tenants(transaction: Transaction) -> Iterator[str]:
    """Yields the tenants with entries in ENDS, with one look at the table for each."""
    start = b""
    while (rest := next(scan(transaction, f"o{Index.ENDS}\0".encode(), start), None)) is not None:
        tenant, _, _ = rest.partition(b"\0")
        yield tenant.decode()
        start = tenant + b"\1"  # behind all its keys, which go on with a 0
