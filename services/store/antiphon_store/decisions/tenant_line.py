"""The line of tenants with waiting jobs: claims serve it round robin, so that no tenant's backlog delays another's.

In DISPATCH_TENANT the index QUEUE has places of tenants, not tickets of jobs. A claim takes the first place, which
moves to the end of the line in the same step, and then a job of that tenant. A tenant of weight 3 has three places. A
tenant without a due job leaves the line until its next job is due.

Row LINE, in a partition of its own: `at` (when its places are due), `joins` (a counter of joins), `places`. A claim
that finds no due job reads the row, checks the tenant's queue once more, and takes the tenant out only if the row is
unchanged: a job that is enqueued meanwhile changes `joins`.
"""

from __future__ import annotations

from antiphon_core.ports.jobs import DISPATCH_QUEUE
from antiphon_store.decisions.jobs import LOOK_MS
from antiphon_store.rows.model import Add, Index, Kind, Now, Row
from antiphon_store.rows.view import Finish, View, answer, nothing


def join(view: View, tenant: str, *, places: int, only_missing: bool = False) -> Finish[None]:
    """Puts a tenant with a due job into the line. A tenant that is in the line keeps its places, and its row notes that
    it joined again, unless `only_missing`."""
    row = view.need(Kind.LINE, tenant)
    if row is None:
        view.put(Kind.LINE, tenant, {"at": Now(), "joins": 1, "places": places})
        _file(view, tenant, places, Now())
    elif row.fields["at"] > view.now_ms:
        view.set(Kind.LINE, tenant, at=Now(), joins=Add(1))
        _file(view, tenant, row.fields["places"], Now())
    elif not only_missing:
        view.set(Kind.LINE, tenant, joins=Add(1))
    return nothing


def read(view: View, tenant: str) -> Finish[Row | None]:
    """Reads the row of a tenant."""
    return answer(view.need(Kind.LINE, tenant))


def leave(view: View, tenant: str, seen: Row | None, due_at: int | None) -> Finish[None]:
    """Takes a tenant out of the line until `due_at`; None: until it joins again. Does nothing if a job was enqueued
    since the row was `seen`."""
    row = view.need(Kind.LINE, tenant)
    if (row and row.fields) != (seen and seen.fields):
        return nothing
    if row is None or due_at is None:
        for number in range(row.fields["places"] if row is not None else 1):
            view.unfile(Index.QUEUE, DISPATCH_QUEUE, place_id(tenant, number))
        if row is not None:
            view.delete(Kind.LINE, tenant)
        return nothing
    at_ms = min(due_at, view.now_ms + LOOK_MS)
    view.set(Kind.LINE, tenant, at=at_ms)
    _file(view, tenant, row.fields["places"], at_ms)
    return nothing


def places_of(tenant: str, row: Row) -> list[tuple[str, int]]:
    """The places of a tenant, each with the time at which it is due."""
    return [(place_id(tenant, number), row.fields["at"]) for number in range(row.fields["places"])]


def place_id(tenant: str, number: int) -> str:
    return f"{number}/{tenant}"


def tenant_of(entry_id: str) -> str:
    """The tenant that has a place."""
    return entry_id.partition("/")[2]


def _file(view: View, tenant: str, places: int, at: int | Now) -> None:
    for number in range(places):
        view.file(Index.QUEUE, DISPATCH_QUEUE, place_id(tenant, number), at)
