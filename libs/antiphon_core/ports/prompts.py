"""Prompts as their callers see them: templates of a tenant, in versions that never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version of a prompt. `content` is JSON that the store does not look into, empty in lists; `created_at_ms` is
    when the prompt was made."""

    id: str
    version: int
    latest_version: int
    created_at_ms: int
    content: bytes = b""


class PromptStore(Protocol):
    """Every call that names a prompt raises NotFound for one that was never made, was deleted or is another tenant's;
    InvalidRequest or TooLarge, with the field's name, for what may not be asked."""

    async def put_prompt(self, tenant: str, prompt_id: str, version: int, content: bytes) -> Prompt:
        """Adds the version behind the latest; version 1 makes the prompt. A version that has the same content already
        stays as it is, and is the answer. VersionMismatch: another version is the next one."""

    async def get_prompt(self, tenant: str, prompt_id: str, *, version: int | None = None) -> Prompt:
        """A version of a prompt, the latest one unless it is named."""

    async def list_prompts(self, tenant: str) -> Sequence[Prompt]:
        """The latest version of each prompt, without content, in the order in which the prompts were made."""

    async def delete_prompt(self, tenant: str, prompt_id: str) -> None:
        """Deletes a prompt with all its versions."""
