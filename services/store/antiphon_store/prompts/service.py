"""Prompts as their callers see them."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.ports.prompts import Prompt
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.prompts import rules
from antiphon_store.rules import check_tenant


class PromptOperations:
    """The part of StoreService that implements `antiphon_core.ports.prompts.PromptStore`."""

    _backend: StoreEngine

    async def put_prompt(self, tenant: str, prompt_id: str, version: int, content: bytes) -> Prompt:
        check_tenant(tenant)
        rules.check_prompt_id(prompt_id)
        rules.check_version(version)
        rules.check_content(content)
        return await self._backend.put_prompt(tenant, prompt_id, version, content)

    async def get_prompt(self, tenant: str, prompt_id: str, *, version: int | None = None) -> Prompt:
        check_tenant(tenant)
        rules.check_prompt_id(prompt_id)
        if version is not None:
            rules.check_version(version)
        return await self._backend.fetch_prompt(tenant, prompt_id, version)

    async def list_prompts(self, tenant: str) -> Sequence[Prompt]:
        check_tenant(tenant)
        return await self._backend.list_prompts(tenant)

    async def delete_prompt(self, tenant: str, prompt_id: str) -> None:
        check_tenant(tenant)
        rules.check_prompt_id(prompt_id)
        await self._backend.remove_prompt(tenant, prompt_id)
