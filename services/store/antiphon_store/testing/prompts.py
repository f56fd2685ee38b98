"""Stored prompts of a tenant, in immutable versions."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from typing import cast

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, NotFound, TooLarge, VersionMismatch
from antiphon_core.ids import RandomIds, new_prompt_id
from antiphon_core.ports.prompts import Prompt, PromptStore
from antiphon_core.ports.store import ResponseStore
from antiphon_store.testing.races import only, race
from antiphon_store.testing.subject import Subject

FIRST, SECOND = b'{"instructions":"one"}', b'{"instructions":"two"}'


def prompts_of(store: ResponseStore) -> PromptStore:
    return cast("PromptStore", store)


def new_id() -> str:
    return new_prompt_id(RandomIds())


async def put_prompt(subject: Subject, *contents: bytes) -> Prompt:
    """Makes a prompt with these versions, and returns the latest."""
    store, prompt_id = prompts_of(subject.store), new_id()
    versions = enumerate(contents or (FIRST,), 1)
    *_, latest = [await store.put_prompt(subject.tenant, prompt_id, version, content) for version, content in versions]
    return latest


class PromptSuite:
    async def test_prompt_versions_are_read_by_number_or_as_the_latest(self, subject: Subject) -> None:
        prompt = await put_prompt(subject, FIRST, SECOND)
        peer = prompts_of(subject.peer)
        assert await peer.get_prompt(subject.tenant, prompt.id) == prompt
        assert (prompt.version, prompt.latest_version, prompt.content) == (2, 2, SECOND)
        first = await peer.get_prompt(subject.tenant, prompt.id, version=1)
        assert (first.version, first.latest_version, first.content) == (1, 2, FIRST)
        assert first.created_at_ms == prompt.created_at_ms > 0

    async def test_a_stored_prompt_version_never_changes(self, subject: Subject) -> None:
        prompt = await put_prompt(subject, FIRST, SECOND)
        with pytest.raises(VersionMismatch):
            await prompts_of(subject.store).put_prompt(subject.tenant, prompt.id, 1, b"{}")
        found = await prompts_of(subject.peer).get_prompt(subject.tenant, prompt.id, version=1)
        assert found.content == FIRST

    async def test_a_prompt_version_put_again_is_stored_once(self, subject: Subject) -> None:
        prompt = await put_prompt(subject, FIRST, SECOND)
        again = await prompts_of(subject.peer).put_prompt(subject.tenant, prompt.id, 2, SECOND)
        assert again == prompt
        again = await prompts_of(subject.peer).put_prompt(subject.tenant, prompt.id, 1, FIRST)
        assert (again.version, again.latest_version) == (1, 2)

    async def test_a_prompt_version_behind_a_gap_is_rejected(self, subject: Subject) -> None:
        prompt, store = await put_prompt(subject), prompts_of(subject.store)
        with pytest.raises(VersionMismatch):
            await store.put_prompt(subject.tenant, prompt.id, 3, SECOND)
        with pytest.raises(NotFound):
            await store.put_prompt(subject.tenant, new_id(), 2, SECOND)

    async def test_one_of_two_concurrent_prompt_versions_wins(self, subject: Subject) -> None:
        prompt = await put_prompt(subject)
        answers, errors = await race(
            prompts_of(subject.store).put_prompt(subject.tenant, prompt.id, 2, b"[1]"),
            prompts_of(subject.peer).put_prompt(subject.tenant, prompt.id, 2, b"[2]"),
        )
        won = only(answers)
        assert isinstance(only(errors), VersionMismatch)
        assert await prompts_of(subject.peer).get_prompt(subject.tenant, prompt.id) == won

    async def test_prompts_are_listed_in_creation_order_without_content(self, subject: Subject) -> None:
        assert await prompts_of(subject.store).list_prompts(subject.tenant) == []
        first = await put_prompt(subject, FIRST, SECOND)
        await subject.elapse(5)
        second = await put_prompt(subject)
        found = await prompts_of(subject.peer).list_prompts(subject.tenant)
        assert [(each.id, each.version, each.content) for each in found] == [(first.id, 2, b""), (second.id, 1, b"")]

    async def test_a_deleted_prompt_is_gone_with_all_its_versions(self, subject: Subject) -> None:
        kept, prompt = await put_prompt(subject), await put_prompt(subject, FIRST, SECOND)
        store, peer = prompts_of(subject.store), prompts_of(subject.peer)
        await store.delete_prompt(subject.tenant, prompt.id)
        for version in (None, 1, 2):
            with pytest.raises(NotFound, match=prompt.id):
                await peer.get_prompt(subject.tenant, prompt.id, version=version)
        with pytest.raises(NotFound):
            await peer.delete_prompt(subject.tenant, prompt.id)
        assert [each.id for each in await peer.list_prompts(subject.tenant)] == [kept.id]

    async def test_a_missing_prompt_version_is_named_in_the_error(self, subject: Subject) -> None:
        prompt = await put_prompt(subject)
        with pytest.raises(NotFound, match=r"no version 2"):
            await prompts_of(subject.store).get_prompt(subject.tenant, prompt.id, version=2)

    async def test_a_prompt_of_another_tenant_does_not_exist(self, subject: Subject) -> None:
        prompt, store = await put_prompt(subject), prompts_of(subject.store)
        other = f"{subject.tenant}-other"
        with pytest.raises(NotFound):
            await store.get_prompt(other, prompt.id)
        with pytest.raises(NotFound):
            await store.delete_prompt(other, prompt.id)
        with pytest.raises(NotFound):
            await store.put_prompt(other, prompt.id, 2, SECOND)
        assert await store.list_prompts(other) == []

    async def test_an_invalid_argument_is_rejected_with_its_field(self, subject: Subject) -> None:
        store, tenant = prompts_of(subject.store), subject.tenant
        with pytest.raises(InvalidRequest) as raised:
            await store.get_prompt(tenant, "pmpt_1")
        assert raised.value.field == "id"
        for version in (0, limits.PROMPT_VERSIONS_ITEMS_MAX + 1):
            with pytest.raises(InvalidRequest) as raised:
                await store.put_prompt(tenant, new_id(), version, FIRST)
            assert raised.value.field == "version"
        with pytest.raises(InvalidRequest) as raised:
            await store.put_prompt(tenant, new_id(), 1, b"")
        assert raised.value.field == "content"
        with pytest.raises(TooLarge) as too_large:
            await store.put_prompt(tenant, new_id(), 1, b" " * (limits.PROMPT_CONTENT_BYTES_MAX + 1))
        assert too_large.value.field == "content"
