"""Stored prompts of a tenant, in a partition of their own: rows PROMPT of three forms.

all/pmpt_…        a prompt: `created`, `latest` (the number of its newest version)
pmpt_…/00000001   a version of it, whose items are the content
count             `prompts`: their number; an import counts them again, so an export leaves it out
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, NotFound, VersionMismatch
from antiphon_core.ports.prompts import Prompt
from antiphon_store.rows.model import Add, Kind, Partition, Range, Ref, Row
from antiphon_store.rows.view import Finish, View, answer, nothing

PROMPTS_TREE = "prompts"
COUNT = Ref(Kind.PROMPT, "count")
_ALL = "all/"


def partition_of(tenant: str) -> Partition:
    return Partition(tenant, PROMPTS_TREE)


def is_prompt(ref: Ref) -> bool:
    """Whether the row is a prompt: not one of its versions, and not the count."""
    return ref.kind is Kind.PROMPT and ref.id.startswith(_ALL)


def add_to_count(view: View, number: int) -> None:
    """Changes the number of prompts by `number`, which may be negative."""
    view.set(*COUNT, prompts=Add(number))


def put(view: View, prompt_id: str, version: int, content: bytes) -> Finish[Prompt]:
    """Adds the version after the latest. A repeated call changes nothing.

    NotFound, VersionMismatch. InvalidRequest: the tenant has too many prompts."""
    prompt, existing, count = view.need_all(_prompt(prompt_id), _version(prompt_id, version), COUNT)
    if prompt is not None and existing is not None and existing.items == content:
        return _finish(prompt_id, prompt, version, content)
    latest = prompt.fields["latest"] if prompt is not None else 0
    if version != latest + 1:
        if prompt is None:
            raise _not_found(prompt_id)
        raise VersionMismatch.of(prompt_id, expected=version - 1, actual=latest)
    if prompt is None:
        _require_room(count)
        add_to_count(view, 1)
        prompt = Row({"created": view.now_ms, "latest": 1})
        view.put(*_prompt(prompt_id), prompt.fields)
    else:
        view.set(*_prompt(prompt_id), latest=version)
        prompt = Row({**prompt.fields, "latest": version})
    view.put(*_version(prompt_id, version), {}, content)
    return _finish(prompt_id, prompt, version, content)


def get(view: View, prompt_id: str, version: int | None) -> Finish[Prompt]:
    """Reads a version of a prompt; None means the latest. NotFound."""
    if version is None:
        prompt = view.need(*_prompt(prompt_id))
        if prompt is None:
            raise _not_found(prompt_id)
        version = int(prompt.fields["latest"])
    prompt, found = view.need_all(_prompt(prompt_id), _version(prompt_id, version))
    if prompt is None or found is None:
        raise _not_found(prompt_id, version if prompt is not None else None)
    return _finish(prompt_id, prompt, version, found.items)


def list_all(view: View) -> Finish[Sequence[Prompt]]:
    """Reads the latest version of each prompt without content, in the order of the prompts' creation."""

    def sort_prompts(rows: Sequence[tuple[str, Row]]) -> Sequence[Prompt]:
        found = [_build_prompt(row_id.removeprefix(_ALL), row, int(row.fields["latest"])) for row_id, row in rows]
        return sorted(found, key=lambda prompt: (prompt.created_at_ms, prompt.id))

    return view.answer_from(sort_prompts, Range(Kind.PROMPT, _ALL, _ALL, limits.CHAIN_BYTES_MAX))


def delete(view: View, prompt_id: str) -> Finish[None]:
    """Deletes a prompt with all its versions. NotFound."""
    prompt, count = view.need_all(_prompt(prompt_id), COUNT)
    if prompt is None:
        raise _not_found(prompt_id)
    view.delete(*_prompt(prompt_id))
    view.delete_below(Kind.PROMPT, f"{prompt_id}/")
    if count is not None and count.fields["prompts"] == 1:
        view.delete(*COUNT)
    else:
        add_to_count(view, -1)
    return nothing


def _prompt(prompt_id: str) -> tuple[Kind, str]:
    return Kind.PROMPT, _ALL + prompt_id


def _version(prompt_id: str, version: int) -> tuple[Kind, str]:
    return Kind.PROMPT, f"{prompt_id}/{version:08d}"


def _require_room(count: Row | None) -> None:
    if count is not None and count.fields["prompts"] >= limits.STORED_PROMPTS_ITEMS_MAX:
        raise InvalidRequest(
            f"There are {limits.STORED_PROMPTS_ITEMS_MAX:,} prompts, which is the most. Delete one.",
            code="too_many_prompts",
        )


def _not_found(prompt_id: str, version: int | None = None) -> NotFound:
    if version is not None:
        return NotFound(f"Prompt with id '{prompt_id}' has no version {version}.", id=prompt_id, version=version)
    return NotFound(f"Prompt with id '{prompt_id}' not found.", id=prompt_id)


def _finish(prompt_id: str, prompt: Row, version: int, content: bytes) -> Finish[Prompt]:
    return answer(_build_prompt(prompt_id, prompt, version, content))


def _build_prompt(prompt_id: str, prompt: Row, version: int, content: bytes = b"") -> Prompt:
    return Prompt(prompt_id, version, int(prompt.fields["latest"]), int(prompt.fields["created"]), bytes(content))
