"""Bad arguments of lineage calls: the error names the field, in this process and over gRPC alike."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.lineage import ForkSource, LineageStore
from antiphon_core.ports.store import Precondition, Status
from antiphon_store.testing.lineage_subject import lineage
from antiphon_store.testing.subject import Subject, draft, new_session_id

Attempt = Callable[[LineageStore, str], Awaitable[object]]

GOOD = draft()
SESSION = new_session_id()
GARBLED = ["", "x", "!", "\ud800", "ü", "AAAA", "A" * 40, "A" * 10_000, "e30=", "bm90IGEgY3Vyc29y"]


def fork(new_session_id: str | None = None, **source: str) -> Attempt:
    return lambda store, tenant: store.fork(tenant, ForkSource(**source), new_session_id=new_session_id)


def read(name: str, response_id: str = GOOD.id, **options: Any) -> Attempt:
    return lambda store, tenant: getattr(store, name)(tenant, response_id, **options)


def status(**options: Any) -> Attempt:
    return lambda store, tenant: store.update_status(tenant, GOOD.id, Status.FAILED, **options)


BAD_CALLS: list[tuple[str, Attempt]] = [
    ("tenant", lambda store, _tenant: store.batch_get("", [GOOD.id])),
    ("tenant", lambda store, _tenant: store.tree("a tenant", GOOD.id)),
    ("tenant", lambda store, _tenant: store.leaves("", GOOD.id)),
    ("ids", lambda store, tenant: store.batch_get(tenant, [])),
    ("ids", lambda store, tenant: store.batch_get(tenant, [GOOD.id] * (limits.LOOKUP_ITEMS_MAX + 1))),
    ("ids[1]", lambda store, tenant: store.batch_get(tenant, [GOOD.id, "resp_1"])),
    ("item_ids", lambda store, tenant: store.resolve_items(tenant, [])),
    ("item_ids", lambda store, tenant: store.resolve_items(tenant, ["a"] * (limits.LOOKUP_ITEMS_MAX + 1))),
    ("item_ids[1]", lambda store, tenant: store.resolve_items(tenant, ["a", ""])),
    ("item_ids[0]", lambda store, tenant: store.resolve_items(tenant, ["\ud800"])),
    ("id", lambda store, tenant: store.update_status(tenant, "resp_1", Status.FAILED)),
    ("precondition.version", status(precondition=Precondition(version=-1))),
    ("session_id", fork()),
    ("session_id", fork(session_id="a b")),
    ("session_id", fork(session_id="")),
    ("up_to_response_id", fork(up_to_response_id="resp_1")),
    ("up_to_response_id", fork(session_id="s", up_to_response_id="")),
    ("new_session_id", fork("a/b", session_id="s")),
    ("new_session_id", fork("", session_id="s")),
    ("session_id", read("list_responses", "a b")),
    ("limit", read("list_responses", SESSION, limit=0)),
    ("limit", read("list_responses", SESSION, limit=limits.LIST_ITEMS_MAX + 1)),
    ("max_nodes", read("tree", max_nodes=0)),
    ("max_nodes", read("tree", max_nodes=-1)),
    ("max_nodes", read("tree", max_nodes=limits.TREE_NODES_MAX + 1)),
    *((name, attempt) for each in ("children", "siblings", "leaves") for name, attempt in [
        ("limit", read(each, limit=0)),
        ("limit", read(each, limit=-7)),
        ("limit", read(each, limit=limits.LIST_ITEMS_MAX + 1)),
        ("id", read(each, "resp_1")),
        ("id", read(each, "")),
    ]),
    *(("cursor", read(each, cursor=text)) for each in ("tree", "children", "siblings", "leaves") for text in GARBLED),
    *(("cursor", read("list_responses", SESSION, cursor=text)) for text in GARBLED),
]  # fmt: skip


class LineageArgumentSuite:
    @pytest.mark.parametrize(
        ("field", "attempt"), BAD_CALLS, ids=[f"{number}-{field}" for number, (field, _) in enumerate(BAD_CALLS)]
    )
    async def test_an_invalid_argument_is_rejected_with_its_field(
        self, subject: Subject, field: str, attempt: Attempt
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await attempt(lineage(subject), subject.tenant)
        assert caught.value.field == field
        assert type(caught.value) is InvalidRequest
