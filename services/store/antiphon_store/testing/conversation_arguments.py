"""Bad arguments of conversation calls: the error names the argument, in this process and over gRPC alike."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import AntiphonError, InvalidRequest, TooLarge
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import Fence
from antiphon_store.testing.conversations import Call, array, new_id, talks_of
from antiphon_store.testing.subject import Subject

ID = new_id()


def creating(**options: Any) -> Call:
    return lambda store, tenant: store.create_conversation(tenant, **options)


def adding(items: bytes, **options: Any) -> Call:
    return lambda store, tenant: store.add_conversation_items(tenant, ID, items, **options)


def listing(**options: Any) -> Call:
    return lambda store, tenant: store.list_conversation_items(tenant, ID, **options)


BAD_CALLS: list[tuple[str, Call]] = [
    ("tenant", lambda store, _tenant: store.get_conversation("a tenant", ID)),
    ("id", creating(conversation_id="conv_1")),
    ("id", creating(conversation_id="")),
    ("metadata", creating(metadata=b"")),
    ("metadata", creating(metadata=b"[]")),
    ("metadata", creating(metadata=dumps({str(n): "" for n in range(limits.METADATA_PAIRS_MAX + 1)}))),
    ("metadata", creating(metadata=dumps({"k" * (limits.METADATA_KEY_CHARS_MAX + 1): ""}))),
    ("metadata.k", creating(metadata=dumps({"k": "v" * (limits.METADATA_VALUE_CHARS_MAX + 1)}))),
    ("metadata.k", creating(metadata=b'{"k":1}')),
    ("items", creating(items=b"")),
    ("items", creating(items=b"{}")),
    ("items", creating(items=array(*(f"{n}" for n in range(limits.CONVERSATION_ITEMS_MAX + 1))))),
    ("ttl_ms", creating(ttl_ms=0)),
    ("id", lambda store, tenant: store.get_conversation(tenant, "")),
    ("id", lambda store, tenant: store.delete_conversation(tenant, "session")),
    ("metadata", lambda store, tenant: store.update_conversation(tenant, ID, b"")),
    ("metadata", lambda store, tenant: store.update_conversation(tenant, ID, b"\xff")),
    ("expected_version", lambda store, tenant: store.update_conversation(tenant, ID, b"{}", expected_version=-1)),
    ("expected_version", lambda store, tenant: store.update_conversation(tenant, ID, b"{}", expected_version=0)),
    ("items", adding(b"[]")),
    ("items[1]", adding(b'[{"id":"a"},7]')),
    ("items[0].id", adding(b'[{"id":5}]')),
    ("items[0].id", adding(b'[{"id":""}]')),
    ("items[0].id", adding(array("x" * (limits.ITEM_ID_BYTES_MAX + 1)))),
    ("items[1].id", adding(array("a", "a"))),
    ("fence.token", adding(array("a"), fence=Fence(ID, 0))),
    ("fence.session_id", adding(array("a"), fence=Fence("s", 1))),
    ("idempotency_key", adding(array("a"), idempotency_key="")),
    ("idempotency_key", adding(array("a"), idempotency_key="ü" * 128)),
    ("idempotency_key", adding(array("a"), idempotency_key="\ud800")),
    ("conversation_id", lambda store, tenant: store.list_conversation_items(tenant, "conv_")),
    ("limit", listing(limit=0)),
    ("limit", listing(limit=limits.PAGE_ITEMS_MAX + 1)),
    ("after", listing(after="")),
    ("item_id", lambda store, tenant: store.get_conversation_item(tenant, ID, "")),
    ("item_id", lambda store, tenant: store.delete_conversation_item(tenant, ID, "\ud800")),
]


class ConversationArgumentSuite:
    @pytest.mark.parametrize(
        ("field", "attempt"), BAD_CALLS, ids=[f"{number}-{field}" for number, (field, _) in enumerate(BAD_CALLS)]
    )
    async def test_an_invalid_argument_is_rejected_with_its_field(
        self, subject: Subject, field: str, attempt: Call
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await attempt(talks_of(subject.store), subject.tenant)
        assert caught.value.field == field

    async def test_items_over_the_limit_are_too_large(self, subject: Subject) -> None:
        large = array("x" * limits.RECORD_BYTES_MAX)
        attempts: list[Call] = [creating(items=large), adding(large)]
        for attempt in attempts:
            with pytest.raises(AntiphonError) as caught:
                await attempt(talks_of(subject.store), subject.tenant)
            assert (type(caught.value), caught.value.field) == (TooLarge, "items")
