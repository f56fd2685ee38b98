"""`generate: false`: makes a response without output, which the next response continues.

A client uses it to send instructions, tools and input before its user has written anything. The engine is not called,
so no tokens are counted. Errors that only the translator or the engine finds appear in the next turn.
"""

from __future__ import annotations

from functools import partial

from antiphon_core import events, offload, response
from antiphon_core.clock import Clock
from antiphon_core.errors import ModelNotFound
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Translator
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.turn_finisher import TurnFinisher


class WarmUps:
    """Makes responses without output. A process has one instance."""

    def __init__(self, store: FullStore, translator: Translator, *, clock: Clock) -> None:
        self._finisher = TurnFinisher(store)
        self._translator = translator
        self._clock = clock

    async def require_model(self, model: str) -> None:
        """ModelNotFound: no model has this name."""
        if all(served.id != model for served in await self._translator.models()):
            raise ModelNotFound.of(model)

    async def run(self, accepted: AcceptedTurn) -> tuple[Batch, Final]:
        """Stores the response, and returns all its events and its end. Raises the error if it cannot be stored."""
        now_s = self._clock.now_ms() // 1000
        batch, final = await offload.run(partial(whole, accepted, now_s=now_s), size_bytes=len(accepted.turn.request))
        await self._finisher.commit(accepted, batch, final)
        return batch, final


def whole(accepted: AcceptedTurn, *, now_s: int) -> tuple[Batch, Final]:
    """All events of a response without output, and its end."""
    parameters: Object = loads(accepted.turn.request)
    created = response.skeleton(parameters, response_id=accepted.response_id, created_at=accepted.turn.created_at)
    completed = created | {
        "status": Status.COMPLETED.value,
        "completed_at": now_s,
        "usage": response.usage(input_tokens=0, output_tokens=0),
    }
    log: list[Object] = [
        {"type": events.CREATED, "sequence_number": 0, "response": created},
        {"type": events.IN_PROGRESS, "sequence_number": 1, "response": created},
        {"type": events.COMPLETED, "sequence_number": 2, "response": completed},
    ]
    body, output_items = response.split(completed)
    final = Final(Status.COMPLETED, body, output_items)
    return Batch(0, len(log), b"".join(map(events.encode, log)), final), final
