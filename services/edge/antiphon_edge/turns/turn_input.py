"""The input of a turn: what comes with its request, from the store, and from the connection.

- Item references: input items that only name, by its id, an item of a stored response.
- A stored prompt: it is read when its turn begins, and is part of the input from then on.
- Carried history: items that come with a request, or from its WebSocket connection, and are not in the store. A turn
  that is stored takes them into its input, so that a turn that continues it finds all of them in the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from antiphon_core import offload
from antiphon_core.errors import InvalidRequest, ItemNotFound, NotFound
from antiphon_core.ids import is_prompt_id
from antiphon_core.jsons import Object, join_arrays, loads, work_bytes
from antiphon_core.limits import LOOKUP_ITEMS_MAX, PROMPT_VERSIONS_ITEMS_MAX
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.prompts import Prompt, PromptStore
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.items import REFERENCE
from antiphon_edge import prompt_rendering


class ResolvedItems(NamedTuple):
    """Items without references. `added_bytes` is the work (`jsons.work_bytes`) of the stored items among them, which
    may be far larger than the request that refers to them."""

    items: Sequence[Object]
    added_bytes: int = 0


async def look_up_references(store: LineageStore, tenant: str, given: Sequence[Object], *, field: str) -> ResolvedItems:
    """Replaces each reference by the stored item. ItemNotFound: the tenant has no item of that id. InvalidRequest:
    there are more references than LOOKUP_ITEMS_MAX."""
    wanted = [item["id"] for item in given if item.get("type") == REFERENCE]
    if not wanted:
        return ResolvedItems(given)
    if len(wanted) > LOOKUP_ITEMS_MAX:
        message = f"'{field}' refers to {len(wanted)} items; at most {LOOKUP_ITEMS_MAX} are looked up."
        raise InvalidRequest(message, field=field, code="array_above_max_length")
    found = await store.resolve_items(tenant, wanted)
    for missing_id in found.missing_ids:
        raise _unknown(missing_id, field)
    added_bytes = sum(work_bytes(each.item) for each in found.items)
    items = await offload.run(lambda: {each.id: loads(each.item) for each in found.items}, size_bytes=added_bytes)
    resolved = [items[item["id"]] if item.get("type") == REFERENCE else item for item in given]
    return ResolvedItems(resolved, added_bytes)


def _unknown(item_id: str, field: str) -> ItemNotFound:
    """The error in OpenAI's words, which clients search for."""
    return ItemNotFound(
        f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false. Try again with "
        "`store` set to true, or remove this item from your input.",
        field=field,
        id=item_id,
    )


async def read_prompt(store: PromptStore, tenant: str, request: CreateRequest) -> Prompt | None:
    """Reads the prompt that a request names, if it names one. NotFound: there is no such prompt or version."""
    named = request.prompt
    if named is None:
        return None
    version = int(named.version) if named.version is not None else None
    if not is_prompt_id(named.id):
        raise NotFound(f"Prompt with id '{named.id}' not found.", field="prompt.id")
    if version is not None and version > PROMPT_VERSIONS_ITEMS_MAX:
        raise NotFound(f"Prompt with id '{named.id}' has no version {version}.", field="prompt.version")
    try:
        return await store.get_prompt(tenant, named.id, version=version)
    except NotFound as error:
        error.field = "prompt.version" if "version" in error.facts else "prompt.id"
        raise


def prompt_work_bytes(request: CreateRequest, prompt: Prompt | None) -> int:
    """The upper bound of the size of a request's prompt with its values, which determines how long work on it takes."""
    if request.prompt is None or prompt is None:
        return 0
    return prompt_rendering.rendered_bytes_max(prompt.content, request.prompt.values)


def fill_in_prompt(
    request: CreateRequest, prompt: Prompt | None, given: str | Sequence[Object]
) -> tuple[Object, str | Sequence[Object]]:
    """Returns (parameters, input) of a request, with the instructions and the items of the prompt. The parameters name
    the version of the prompt that was read. InvalidRequest: a variable is missing or unknown, or its values are too
    large."""
    parameters = request.asked()
    if request.prompt is None or prompt is None:
        return parameters, given
    added = prompt_rendering.rendered(prompt.id, loads(prompt.content), request.prompt.values)
    parameters["prompt"] = parameters["prompt"] | {"version": str(prompt.version)}
    if added.instructions is not None:
        parameters.setdefault("instructions", added.instructions)
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return parameters, [*added.input, *given]


def history_and_input(
    carried: bytes | None, stored: bytes, given: str | Sequence[Object], *, keep: bool
) -> tuple[bytes, str | Sequence[Object]]:
    """Returns (history, input) of a turn. Carried items go before the stored history, or, if the turn itself will be
    stored (`keep`), before its input."""
    if carried is None:
        return stored, given
    if not keep:
        return join_arrays([carried, stored]), given
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return stored, [*loads(carried), *given]
