"""Prepares the turn of a request: its input comes with the request, from the store, and from the connection.

- Item references: input items that only name, by its id, an item of a stored response.
- A stored prompt: it is read when its turn begins, and is part of the input from then on.
- Carried history: items that come with a request, or from its WebSocket connection, and are not in the store. A turn
  that is stored takes them into its input, so that a turn that continues it finds all of them in the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from antiphon_core import offload
from antiphon_core.clock import Clock
from antiphon_core.errors import (
    ConversationNotFound,
    InvalidRequest,
    ItemNotFound,
    NotFound,
    PreviousResponseNotFound,
    TooLarge,
)
from antiphon_core.ids import Ids, is_conversation_id, is_prompt_id, is_response_id
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, canonical, compact, join_arrays, loads, work_bytes
from antiphon_core.limits import LOOKUP_ITEMS_MAX, PROMPT_VERSIONS_ITEMS_MAX, RECORD_BYTES_MAX, RPC_MESSAGE_BYTES_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.prompts import Prompt, PromptStore
from antiphon_core.ports.store import History
from antiphon_core.ports.translator import Turn
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.items import REFERENCE, items_given
from antiphon_core.request.prompts import PromptRef
from antiphon_edge import prompt_rendering, stored_content
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.sealed import context as sealed_context
from antiphon_edge.sealed.items import open_items
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.tools.declared_servers import require_callable
from antiphon_edge.turns.resent_conversations import ResentConversation
from antiphon_edge.turns.turn_lineages import choose_lineages


class ResolvedItems(NamedTuple):
    """An input with sealed content opened and without references. `added_bytes` is the work (`jsons.work_bytes`) of the
    stored items in it, which may be far larger than the request that refers to them."""

    items: Sequence[Object]
    added_bytes: int = 0


class TurnBuilder:
    """Makes the turns of requests. One instance serves all of a process."""

    def __init__(self, store: FullStore, *, clock: Clock, ids: Ids, sealer: Sealer, long_work: LongWork) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._sealer = sealer
        self._long_work = long_work

    async def carried_items(self, tenant: str, request: CreateRequest) -> bytes | None:
        """Returns the items that a request carries in `previous_response`, maybe sealed. Raises InvalidRequest."""
        if request.previous_response is None:
            return None

        def open_all(items: Sequence[Object], where: str) -> list[Object]:
            return open_items(items, self._sealer, tenant, where=where)

        def bring() -> bytes | None:
            return sealed_context.carried_items(request, self._sealer, tenant, self._ids, open_all)

        return await offload.run(bring, size_bytes=request.work_bytes)

    async def resolved_input(self, tenant: str, request: CreateRequest) -> ResolvedItems:
        """Returns the input, with sealed content opened and each item reference replaced by its item."""
        if isinstance(request.input, str):
            return ResolvedItems([{"role": "user", "content": request.input}])

        def open_all() -> list[Object]:
            return open_items(items_given(request.input), self._sealer, tenant)

        given = await offload.run(open_all, size_bytes=request.work_bytes)
        return await look_up_references(self._store, tenant, given, field="input")

    async def resent_conversation(
        self, tenant: str, request: CreateRequest, given: ResolvedItems
    ) -> ResentConversation:
        """Returns the hashes of an input without a predecessor."""
        read = partial(ResentConversation.of, tenant, request.model, given.items)
        return await offload.run(read, size_bytes=request.work_bytes + given.added_bytes)

    async def turn(
        self,
        tenant: str,
        response_id: str,
        request: CreateRequest,
        stored: History,
        given: ResolvedItems,
        *,
        carried: bytes | None = None,
        must_fit: bool = False,
    ) -> Turn:
        """Makes the turn of a request. `stored` is the history from the store. `must_fit`: the input will be stored.

        Raises:
            NotFound: the request names a stored prompt that does not exist.
            TooLarge: the store would reject the input.
            RequestRateExceeded: too many long turns of the tenant wait.
        """
        named = request.prompt
        prompt = await read_prompt(self._store, tenant, named) if named is not None else None

        def build() -> Turn:
            parameters, items, history = request.as_json(), given.items, stored.items
            if prompt is not None and named is not None:
                parameters, items = fill_in_prompt(parameters, prompt, named, items)
            if carried is not None:
                history, items = history_and_input(carried, stored.items, items, is_stored=request.store is not False)
            whole_input = compact(normalise_input(items, self._ids, relative=response_id))
            if must_fit and len(whole_input) > RECORD_BYTES_MAX:
                raise _too_long(whole_input)
            lineages = choose_lineages(stored.lineages) if stored.lineages else ()
            texts, now_s = (compact(parameters), history, whole_input), self._clock.now_ms() // 1000
            return Turn(response_id, now_s, *texts, lineages=lineages, tenant=tenant)

        size_bytes = request.work_bytes + given.added_bytes + len(carried or b"")
        if prompt is not None and named is not None:
            size_bytes += prompt_work_bytes(prompt, named)
        async with self._long_work.reserve(tenant, size_bytes + len(stored.items)):
            return await offload.run(build, size_bytes=size_bytes)


async def look_up_references(store: LineageStore, tenant: str, given: Sequence[Object], *, field: str) -> ResolvedItems:
    """Replaces each reference by the stored item. ItemNotFound: the tenant has no item of that id. InvalidRequest:
    there are more references than LOOKUP_ITEMS_MAX. TooLarge: they are longer than a turn can be."""
    wanted = [item["id"] for item in given if item.get("type") == REFERENCE]
    if not wanted:
        return ResolvedItems(given)
    if len(wanted) > LOOKUP_ITEMS_MAX:
        message = f"'{field}' refers to {len(wanted)} items; at most {LOOKUP_ITEMS_MAX} are looked up."
        raise InvalidRequest(message, field=field, code="array_above_max_length")
    found = await store.resolve_items(tenant, wanted)
    for missing_id in found.missing_ids:
        raise _unknown(missing_id, field)
    lengths = {each.id: len(each.item) for each in found.items}
    if (length := sum(lengths[item_id] for item_id in wanted)) > RPC_MESSAGE_BYTES_MAX:  # an item can be named often
        raise TooLarge(
            f"The items that '{field}' refers to are {length} bytes long; at most {RPC_MESSAGE_BYTES_MAX} are sent"
            " to a model.",
            field=field,
        )
    work = {each.id: work_bytes(each.item) for each in found.items}
    added_bytes = sum(work[item_id] for item_id in wanted)
    items = await offload.run(partial(stored_content.items_by_id, found.items), size_bytes=added_bytes)
    resolved = [items[item["id"]] if item.get("type") == REFERENCE else item for item in given]
    return ResolvedItems(resolved, added_bytes)


def _too_long(whole_input: bytes) -> TooLarge:
    message = f"The input is {len(whole_input)} bytes long; at most {RECORD_BYTES_MAX} are stored."
    return TooLarge(message, field="input")


def _unknown(item_id: str, field: str) -> ItemNotFound:
    """The error in OpenAI's words, which clients search for."""
    return ItemNotFound(
        f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false. Try again with "
        "`store` set to true, or remove this item from your input.",
        field=field,
        id=item_id,
    )


async def read_prompt(store: PromptStore, tenant: str, named: PromptRef) -> Prompt:
    """Reads the prompt that a request names. NotFound: there is no such prompt or version."""
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


def prompt_work_bytes(prompt: Prompt, named: PromptRef) -> int:
    """The upper bound of the size of a prompt with its values, which determines how long work on it takes."""
    return prompt_rendering.rendered_bytes_max(prompt.content, named.values)


def fill_in_prompt(
    parameters: Object, prompt: Prompt, named: PromptRef, given: Sequence[Object]
) -> tuple[Object, Sequence[Object]]:
    """Returns (parameters, input) of a request, with the instructions and the items of the prompt. The parameters name
    the version of the prompt that was read. InvalidRequest: a variable is missing or unknown, or its values are too
    large."""
    added = prompt_rendering.render(prompt.id, stored_content.prompt_of(prompt), named.values)
    filled = parameters | {"prompt": parameters["prompt"] | {"version": str(prompt.version)}}
    if added.instructions is not None:
        filled.setdefault("instructions", added.instructions)
    return filled, [*added.input, *given]


def history_and_input(
    carried: bytes, stored: bytes, given: Sequence[Object], *, is_stored: bool
) -> tuple[bytes, Sequence[Object]]:
    """Returns (history, input) of a turn that carries items. They go before the stored history, or, if the turn itself
    will be stored, before its input."""
    if not is_stored:
        return join_arrays([carried, stored]), given
    return stored, [*loads(carried), *given]


def continued_id(request: CreateRequest, carried: bytes | None) -> str | None:
    """The id of the stored response that a request continues; None if the request carries the items (`carried`).
    PreviousResponseNotFound: no response can have such an id."""
    if carried is not None:
        return None
    previous_id = (
        request.previous_response.id if request.previous_response is not None else request.previous_response_id
    )
    if previous_id is not None and not is_response_id(previous_id):
        raise PreviousResponseNotFound.of(previous_id)
    return previous_id


async def fingerprint_of(request: CreateRequest, session_id: str | None) -> bytes:
    """A hash of the request, which tells two requests under one key apart."""

    def digest() -> bytes:
        previous = request.previous_response
        whole = {"input": request.input_given, "previous_response": previous and previous.model_dump()}
        return hashlib.sha256(canonical([request.as_json() | whole, session_id])).digest()

    return await offload.run(digest, size_bytes=request.work_bytes)


def require_consistent(request: CreateRequest, *, session_id: str | None, key: str | None) -> None:
    """Checks a request with the session and the idempotency key of its headers.

    Raises:
        InvalidRequest: they exclude each other, or the request has tools of servers that cannot be called.
        ConversationNotFound: no conversation can have the id that the request names.
    """
    if request.tools is not None:
        require_callable(request)
    if session_id is not None:
        require_one_predecessor(request, session_id)
    if request.store is False:
        _require_nothing_stored(request, session_id=session_id, key=key)


def require_one_predecessor(request: CreateRequest, session_id: str) -> None:
    """Checks that a request of a session names no other response that it continues, and that its conversation may
    exist. Raises InvalidRequest, ConversationNotFound."""
    for name in ("previous_response_id", "previous_response"):
        if getattr(request, name) is not None:
            raise InvalidRequest(
                f"'{name}' and a session exclude each other: the session knows what it continues.",
                field=name,
                code="mutually_exclusive_parameters",
            )
    if request.conversation is not None and not is_conversation_id(session_id):
        raise ConversationNotFound.of(session_id)


def _require_nothing_stored(request: CreateRequest, *, session_id: str | None, key: str | None) -> None:
    """InvalidRequest: a request with 'store': false has something that needs a stored response."""
    wanted = {
        "background": bool(request.background),
        "conversation": session_id is not None,
        "Idempotency-Key": key is not None,
    }
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise InvalidRequest(
                f"'{name}' needs 'store': true. With false nothing is stored.", field=name, code="invalid_value"
            )
