"""Checks of arguments about prompts, in the service and in the client. Pure, as in `antiphon_store.rules`."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.errors import TooLarge
from antiphon_core.ids import is_prompt_id
from antiphon_store import rules


def check_prompt_id(prompt_id: str) -> None:
    if not is_prompt_id(prompt_id):
        raise rules.invalid("id", "'id' must be 'pmpt_' followed by 48 lower-case hexadecimal digits.")


def check_version(version: int) -> None:
    rules.check_range(version, 1, limits.PROMPT_VERSIONS_ITEMS_MAX, "version")


def check_content(content: bytes) -> None:
    if not content:
        raise rules.invalid("content", "'content' is missing.")
    if len(content) > limits.PROMPT_CONTENT_BYTES_MAX:
        raise TooLarge(
            f"The prompt is {len(content)} bytes long; at most {limits.PROMPT_CONTENT_BYTES_MAX} are stored.",
            field="content",
        )
