"""Checks of arguments about prompts. Pure, as in `rules.common`."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ids import is_prompt_id
from antiphon_store.rules import common as rules


def check_prompt_id(prompt_id: str, field: str = "id") -> None:
    if not is_prompt_id(prompt_id):
        raise rules.invalid(field, f"'{field}' must be 'pmpt_' followed by 48 lower-case hexadecimal digits.")


def check_content(content: bytes, field: str = "content") -> None:
    rules.check_given(content, field)
    rules.check_size("The prompt is", len(content), limits.PROMPT_CONTENT_BYTES_MAX, field)
