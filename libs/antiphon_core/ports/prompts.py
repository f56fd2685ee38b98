"""The port of stored prompts: templates of a tenant, in immutable versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import PromptId, Tenant, bytes_up_to, check_given, within

PromptVersion = Annotated[int, within(1, limits.PROMPT_VERSIONS_ITEMS_MAX)]
PromptContent = Annotated[bytes, check_given, bytes_up_to(limits.PROMPT_CONTENT_BYTES_MAX, "The prompt is")]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version of a prompt. `content` is JSON that the store does not parse, and empty in lists; `created_at_ms` is
    the time at which the first version was made."""

    id: str
    version: int
    latest_version: int
    created_at_ms: int
    content: bytes = b""


class PromptStore(Protocol):
    """Operations on stored prompts.

    Those that name a prompt raise NotFound if it never existed, was deleted or is another tenant's, and InvalidRequest
    or TooLarge, with the field's name, for invalid arguments."""

    async def put_prompt(
        self, tenant: Tenant, prompt_id: PromptId, version: PromptVersion, content: PromptContent
    ) -> Prompt:
        """Adds the version after the latest one; version 1 makes the prompt. Idempotent for the same content.
        VersionMismatch: `version` is not the next one."""

    async def get_prompt(self, tenant: Tenant, prompt_id: PromptId, *, version: PromptVersion | None = None) -> Prompt:
        """One version of a prompt; None is the latest."""

    async def list_prompts(self, tenant: Tenant) -> Sequence[Prompt]:
        """The latest version of each prompt, without content, in the order in which the prompts were made."""

    async def delete_prompt(self, tenant: Tenant, prompt_id: PromptId) -> None:
        """Deletes a prompt with all its versions."""
