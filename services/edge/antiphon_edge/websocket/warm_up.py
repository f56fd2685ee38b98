"""`generate: false`: a response without output, made so that the next one can continue it.

A client sends its instructions, its tools and what it has before its user says anything. Nothing is asked of the model,
so nothing is counted either; what a model would refuse is refused in the turn that asks it.
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
    """Makes responses without output. One instance serves all of a process."""

    def __init__(self, store: FullStore, translator: Translator, *, clock: Clock) -> None:
        self._finisher = TurnFinisher(store)
        self._translator = translator
        self._clock = clock

    async def require_model(self, model: str) -> None:
        """ModelNotFound."""
        if all(served.id != model for served in await self._translator.models()):
            raise ModelNotFound.of(model)

    async def run(self, accepted: AcceptedTurn) -> tuple[Batch, Final]:
        """All events of the response, when its record is safe. Raises when it cannot be written."""
        now_s = self._clock.now_ms() // 1000
        batch, final = await offload.run(partial(whole, accepted, now_s=now_s), size_bytes=len(accepted.turn.request))
        await self._finisher.commit(accepted, batch, final)
        return batch, final


def whole(accepted: AcceptedTurn, *, now_s: int) -> tuple[Batch, Final]:
    """A response without output from its first event to its last, and its end."""
    parameters: Object = loads(accepted.turn.request)
    born = response.skeleton(parameters, response_id=accepted.response_id, created_at=accepted.turn.created_at)
    ended = born | {
        "status": Status.COMPLETED.value,
        "completed_at": now_s,
        "usage": response.usage(input_tokens=0, output_tokens=0),
    }
    told: list[Object] = [
        {"type": events.CREATED, "sequence_number": 0, "response": born},
        {"type": events.IN_PROGRESS, "sequence_number": 1, "response": born},
        {"type": events.COMPLETED, "sequence_number": 2, "response": ended},
    ]
    body, output_items = response.split(ended)
    final = Final(Status.COMPLETED, body, output_items)
    return Batch(0, len(told), b"".join(map(events.encode, told)), final), final
