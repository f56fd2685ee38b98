"""Prompts of tenants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.prompts import Prompt
from antiphon_store.decisions import prompts
from antiphon_store.engine.operations import Operations


class PromptOperations(Operations):
    """NotFound: the prompt or the version was never made, or was removed."""

    async def put_prompt(self, tenant: str, prompt_id: str, version: int, content: bytes) -> Prompt:
        """Adds the version behind the latest; the same version again changes nothing. VersionMismatch."""
        decision = partial(prompts.put, prompt_id=prompt_id, version=version, content=content)
        return await self._runner.run(prompts.partition_of(tenant), decision)

    async def fetch_prompt(self, tenant: str, prompt_id: str, version: int | None) -> Prompt:
        """A version of a prompt, the latest one unless it is named."""
        decision = partial(prompts.fetch, prompt_id=prompt_id, version=version)
        return await self._runner.run(prompts.partition_of(tenant), decision, only_reads=True)

    async def list_prompts(self, tenant: str) -> Sequence[Prompt]:
        """The latest version of each prompt, without content, by the time at which the prompts were made."""
        return await self._runner.run(prompts.partition_of(tenant), prompts.read_all, only_reads=True)

    async def remove_prompt(self, tenant: str, prompt_id: str) -> None:
        """Removes a prompt with all its versions."""
        await self._runner.run(prompts.partition_of(tenant), partial(prompts.remove, prompt_id=prompt_id))
