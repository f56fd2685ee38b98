"""Tenancy: data of another tenant is answered like data that does not exist."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import PreviousResponseNotFound, ResponseNotFound, StaleFence
from antiphon_core.ports.store import Precondition
from antiphon_store.testing.subject import Subject, content, draft, new_session_id


class TenancySuite:
    async def test_another_tenants_response_does_not_exist(self, subject: Subject) -> None:
        (record,) = await subject.put_line(1)
        stranger = replace(subject, tenant=subject.tenant + "-other")
        with pytest.raises(ResponseNotFound) as caught:
            await stranger.get(record)
        with pytest.raises(ResponseNotFound) as never_written:
            await stranger.get(draft())
        assert type(caught.value) is type(never_written.value)
        with pytest.raises(ResponseNotFound):
            await stranger.store.chain(stranger.tenant, record.id)
        with pytest.raises(ResponseNotFound):
            await stranger.store.list_items(stranger.tenant, record.id)
        with pytest.raises(ResponseNotFound):
            await stranger.delete(record)
        with pytest.raises(PreviousResponseNotFound):
            await stranger.begin_after(record)
        with pytest.raises(ResponseNotFound):
            await stranger.put(draft(record))
        assert content(await subject.get(record)) == content(record)

    async def test_the_same_id_may_be_used_by_two_tenants(self, subject: Subject) -> None:
        record = draft()
        stranger = replace(subject, tenant=subject.tenant + "-other")
        other = replace(record, body=b'{"theirs":1}')
        await subject.put(record)
        await stranger.put(other)
        await subject.delete(record)
        assert content(await stranger.get(other)) == content(other)

    async def test_equal_session_ids_of_two_tenants_are_independent(self, subject: Subject) -> None:
        session_id = new_session_id()
        stranger = replace(subject, tenant=subject.tenant + "-other")
        head = await subject.commit_in(session_id)
        await subject.store.acquire_session(subject.tenant, session_id, holder="a")
        history, lease = await stranger.begin_in(session_id, holder="b")
        assert (lease.fence.token, history.head_id) == (1, None)
        await stranger.store.release_session(stranger.tenant, lease.fence)
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.head_id, session.last_fence) == (head.id, 2)

    async def test_a_fence_of_another_tenant_is_rejected(self, subject: Subject) -> None:
        lease = await subject.store.acquire_session(subject.tenant, new_session_id(), holder="a")
        stranger = replace(subject, tenant=subject.tenant + "-other")
        with pytest.raises(StaleFence):
            await stranger.put(draft(tag=lease.fence.session_id), precondition=Precondition(fence=lease.fence))
