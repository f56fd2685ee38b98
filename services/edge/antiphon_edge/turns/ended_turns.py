"""Makes the turn of a stored response again, so that a translator can compare its prompt with another one.

The request is what the response repeats of it, and the items are those of the store. The lineage tells the translator
whether that makes the same prompt.
"""

from __future__ import annotations

import logging
from functools import partial

from antiphon_core import offload
from antiphon_core.errors import (
    AntiphonError,
    DataDamaged,
    InvalidRequest,
    NotFound,
    PreviousResponseNotReady,
    TooLarge,
    for_log,
)
from antiphon_core.ids import is_response_id
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import CHAIN_BYTES_MAX, RECORD_BYTES_MAX, RPC_MESSAGE_BYTES_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import UNFINISHED, History, Record, TurnRequest
from antiphon_core.ports.translator import EndedTurn, Turn
from antiphon_core.request.context import COMPACTION
from antiphon_core.request.prompt_cache import COMPARISON
from antiphon_edge import stored_content
from antiphon_edge.compaction import context_window
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.quotas.rate_limits import hold_bytes
from antiphon_edge.turns.turn_lineages import choose_lineages

_PARAMETERS = (
    "model",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "truncation",
    "max_output_tokens",
    "max_tool_calls",
    "prompt_cache_key",
)
_OPTIONS = "prompt_cache_options"
COMPARED_BYTES_MAX = 8 * 2**20
"""Of the response that a request is compared with: a prompt of two million tokens."""

log = logging.getLogger(__name__)


class EndedTurns:
    """Reads responses that have ended. One instance serves all of a process."""

    def __init__(self, store: FullStore, long_work: LongWork) -> None:
        """`store` fails fast."""
        self._store = store
        self._long_work = long_work

    async def read(self, tenant: str, record: Record, *, max_bytes: int = CHAIN_BYTES_MAX) -> EndedTurn:
        """The turn of a stored response, with its output and its lineage. InvalidRequest: it has not ended.
        ChainTooLong: it has more than `max_bytes` with its history."""
        if record.status in UNFINISHED:
            raise _unfinished_error(record.id)
        async with self._long_work.reading(tenant) as note_bytes:
            request = TurnRequest(previous_response_id=record.id, wants_lineage=True, max_bytes=max_bytes)
            history = (await self._store.begin_turn(tenant, request)).history
            note_bytes(len(history.items))
            return await offload.run(lambda: _turn_of(tenant, record, history), size_bytes=len(history.items))

    async def facts(self, tenant: str, record: Record) -> EndedTurn:
        """The lineage of a stored response, in a turn without items: it has all that a report without a comparison
        tells. Empty if it is damaged. InvalidRequest: the response has not ended."""
        if record.status in UNFINISHED:
            raise _unfinished_error(record.id)
        try:
            lineage = (await self._store.begin_turn(tenant, TurnRequest(lineage_of=record.id))).found_lineage
        except DataDamaged:
            lineage = b""
        return EndedTurn(Turn(record.id, 0, b"{}", tenant=tenant), lineage=lineage)

    async def compared_with(self, turn: Turn) -> EndedTurn | None:
        """The response that the request of a turn wants to be compared with; None if the tenant has none of that id.
        It is unread if it cannot be read, or is too large: a comparison never fails a turn."""
        asked: Object = await offload.run(partial(loads, turn.request), size_bytes=len(turn.request))
        response_id = (asked.get(_OPTIONS) or {}).get(COMPARISON.decode())
        if not isinstance(response_id, str) or not is_response_id(response_id):
            return None
        # what is left of a call to a translator, with an output of several rounds
        left = RPC_MESSAGE_BYTES_MAX - RECORD_BYTES_MAX - turn.size_bytes
        try:
            return await self._read_bounded(turn.tenant, response_id, min(COMPARED_BYTES_MAX, left))
        except (NotFound, PreviousResponseNotReady, InvalidRequest):
            return None
        except AntiphonError as error:
            log.info("%s cannot be compared with: %s", response_id, for_log(error))
            return EndedTurn(Turn(response_id, 0, b"", tenant=turn.tenant))

    async def _read_bounded(self, tenant: str, response_id: str, bytes_max: int) -> EndedTurn:
        """Reads a response of at most so many bytes, which count until the turn ends. TooLarge, ChainTooLong."""
        record = await self._store.get(tenant, response_id)
        if record.size_bytes > bytes_max:
            raise _large_error(response_id)
        found = await self.read(tenant, record, max_bytes=bytes_max)
        if found.size_bytes > bytes_max:
            raise _large_error(response_id)
        hold_bytes(found.size_bytes)
        return found


def _turn_of(tenant: str, record: Record, history: History) -> EndedTurn:
    body = stored_content.body_of(record)
    given, output, items = loads(record.input_items), loads(record.output_items), loads(history.items)
    if output and output[0].get("type") == COMPACTION:  # it was made before the answer, and the answer follows from it
        given, output = [*given, output[0]], output[1:]
    own = len(given) + len(output)
    turn = Turn(
        record.id,
        int(body.get("created_at", 0)),  # every response has it but one that another client of the store has written
        dumps({name: body[name] for name in _PARAMETERS if body.get(name) is not None}),
        dumps(items[: len(items) - own]),
        dumps(given),
        lineages=choose_lineages(history.lineages[:-1]) if history.lineages else (),
        tenant=tenant,
    )
    lineage = history.lineages[-1] if history.lineages else b""
    return EndedTurn(context_window.visible_turn(turn), dumps(output), lineage)


def _large_error(response_id: str) -> TooLarge:
    return TooLarge(f"Response '{response_id}' is too large to be compared with.")


def _unfinished_error(response_id: str) -> InvalidRequest:
    return InvalidRequest(
        f"Response '{response_id}' has not ended: its prompt can be explained once it has.",
        field="response_id",
        code="response_not_ready",
    )
