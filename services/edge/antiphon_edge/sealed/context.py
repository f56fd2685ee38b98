"""`encrypted_context`: what was said before a response, sealed into the response, for clients that keep their history
themselves and bring the whole response back as `previous_response`.

It is made under the same `include` as sealed reasoning, where nothing is stored. The output is not part of it: the
client has that anyway. The response's id is, so that one's context is never read as another's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from antiphon_core import events
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
from antiphon_edge.sealed.sealing import BadSeal, Sealer, refused

FIELD = "previous_response"
_CONTINUABLE = (Status.COMPLETED, Status.INCOMPLETE)


def sealer_of(tenant: str, turn: Turn, sealer: Sealer) -> Change:
    """Makes the change that seals the context of a turn into its last batch."""

    def change(batch: Batch) -> Batch:
        if batch.final is None or batch.final.status not in _CONTINUABLE:
            return batch
        return _with_context(batch, tenant, turn, sealer)

    return change


def _with_context(batch: Batch, tenant: str, turn: Turn, sealer: Sealer) -> Batch:
    """A last batch with the context in its response. One that is too large to be brought back is left out."""
    context = join_arrays([turn.history, turn.input])
    if batch.final is None or len(context) > SEALED_CONTEXT_BYTES_MAX:
        return batch
    sealed = sealer.seal(tenant, dumps([turn.response_id, context.decode()]).decode(), purpose=FIELD)
    told = events.decode(batch.frames)
    told[-1]["response"][SEALED_CONTEXT] = sealed
    body = with_member(batch.final.body, SEALED_CONTEXT, dumps(sealed))
    return replace(batch, frames=b"".join(map(events.encode, told)), final=replace(batch.final, body=body))


def brought(
    request: CreateRequest,
    sealer: Sealer,
    tenant: str,
    ids: Ids,
    opened: Callable[[Sequence[Object], str], list[Object]],
) -> bytes | None:
    """The items of the whole response that a request continues; None if it brings none, or one that is stored.
    `opened` opens what is sealed in items, which stand where its second argument says.

    InvalidRequest: it cannot be continued."""
    previous = request.previous_response
    if previous is None or is_stored(previous):
        return None
    context = _opened(previous, sealer, tenant)
    return join_arrays([context, dumps(normalise_input(opened(previous.output_given, f"{FIELD}.output"), ids))])


def is_stored(previous: PreviousResponse) -> bool:
    """Whether a response says that the store has it, and brings nothing by which it could be continued without."""
    return previous.encrypted_context is None and previous.store is not False


def continued_id(request: CreateRequest, carried: bytes | None) -> str | None:
    """The stored response that a request continues, in whichever form it was named."""
    if carried is not None:
        return None
    return request.previous_response.id if request.previous_response is not None else request.previous_response_id


def _opened(previous: PreviousResponse, sealer: Sealer, tenant: str) -> bytes:
    path = f"{FIELD}.{SEALED_CONTEXT}"
    if previous.encrypted_context is None:
        raise InvalidRequest(
            f"'{FIELD}' was not stored and does not say what came before it. Create it with \"include\": "
            f'["{INCLUDE}"], and bring all of it back.',
            field=path,
            code="missing_required_parameter",
        )
    try:
        response_id, context = loads(sealer.open(tenant, previous.encrypted_context, purpose=FIELD))
    except BadSeal:
        raise refused(path) from None
    if response_id != previous.id:
        raise refused(path)
    return str(context).encode()
