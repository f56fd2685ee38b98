"""`encrypted_context`: the history and input of a response, sealed into the response. Clients that keep their history
themselves send the whole response back as `previous_response`.

It is made for responses that are not stored, with the same `include` as sealed reasoning. It does not contain the
output, which the response has in plain text. It contains the response's id, so that it is valid for this response only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from antiphon_core import events
from antiphon_core.abandoned_calls import as_history
from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import Ids
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, dumps, join_arrays, loads, with_member
from antiphon_core.limits import SEALED_CONTEXT_BYTES_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Turn
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.previous import SEALED_CONTEXT, PreviousResponse
from antiphon_edge.sealed.reasoning import INCLUDE, Change
from antiphon_edge.sealed.sealing import BadSeal, Sealer, bad_seal_error

FIELD = "previous_response"
_CONTINUABLE = (Status.COMPLETED, Status.INCOMPLETE)


def sealer_of(tenant: str, turn: Turn, sealer: Sealer) -> Change:
    """Returns a function that seals the context of a turn into the turn's last batch."""

    def change(batch: Batch) -> Batch:
        if batch.final is None or batch.final.status not in _CONTINUABLE:
            return batch
        return _with_context(batch, tenant, turn, sealer)

    return change


def _with_context(batch: Batch, tenant: str, turn: Turn, sealer: Sealer) -> Batch:
    """The last batch with the sealed context in its response. A context that is too large to be sent back is left
    out."""
    context = join_arrays([turn.history, turn.input])
    if batch.final is None or len(context) > SEALED_CONTEXT_BYTES_MAX:
        return batch
    sealed = sealer.seal(tenant, dumps([turn.response_id, context.decode()]).decode(), purpose=FIELD)
    decoded = events.decode(batch.frames)
    decoded[-1]["response"][SEALED_CONTEXT] = sealed
    body = with_member(batch.final.body, SEALED_CONTEXT, dumps(sealed))
    return replace(batch, frames=b"".join(map(events.encode, decoded)), final=replace(batch.final, body=body))


def carried_items(
    request: CreateRequest,
    sealer: Sealer,
    tenant: str,
    ids: Ids,
    opened: Callable[[Sequence[Object], str], list[Object]],
) -> bytes | None:
    """All items of the `previous_response` that a request carries: its context and its output. None if the request has
    none, or one that is stored. `opened` opens sealed items; its second argument is their path for errors.

    InvalidRequest: the response cannot be continued."""
    previous = request.previous_response
    if previous is None or is_stored(previous):
        return None
    context = _open_context(previous, sealer, tenant)
    output = dumps(normalise_input(opened(previous.output_given, f"{FIELD}.output"), ids))
    return join_arrays([context, as_history(output, Status(previous.status or Status.COMPLETED))])


def is_stored(previous: PreviousResponse) -> bool:
    """Whether a `previous_response` is to be read from the store: it was stored, and carries no sealed context."""
    return previous.encrypted_context is None and previous.store is not False


def _open_context(previous: PreviousResponse, sealer: Sealer, tenant: str) -> bytes:
    path = f"{FIELD}.{SEALED_CONTEXT}"
    if previous.encrypted_context is None:
        raise InvalidRequest(
            f"'{FIELD}' was not stored and has no '{SEALED_CONTEXT}'. Create it with \"include\": "
            f'["{INCLUDE}"], and send the whole response back.',
            field=path,
            code="missing_required_parameter",
        )
    try:
        response_id, context = loads(sealer.open(tenant, previous.encrypted_context, purpose=FIELD))
    except BadSeal:
        raise bad_seal_error(path) from None
    if response_id != previous.id:
        raise bad_seal_error(path)
    return str(context).encode()
