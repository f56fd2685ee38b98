from __future__ import annotations

from antiphon_core import events
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_edge.turns import log_state
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService

TENANT = "t"


async def test_log_state_has_the_events_the_token_ids_and_the_end_of_a_log() -> None:
    backend, response_id = row_backend("memory://"), new_response_id(RandomIds())
    await backend.open()
    store = StoreService(backend)
    assert (await log_state.read(store, TENANT, response_id)).fold.next_sequence == 0
    created = events.encode({"type": events.CREATED, "response": {"id": response_id, "output": []}})
    other = events.encode({"type": events.KEEP_ALIVE})
    await store.append_events(TENANT, EventAppend(response_id, 0, 1, created, Checkpoint(0, (1, 2))))
    await store.append_events(TENANT, EventAppend(response_id, 1, 1, other, Checkpoint(2, (3,))))
    said = await log_state.read(store, TENANT, response_id)
    assert (said.fold.next_sequence, said.fold.response()["id"], said.is_over) == (2, response_id, False)
    assert list(said.token_ids) == [1, 2, 3]
    ended = events.encode({"type": events.COMPLETED, "response": {"id": response_id}})
    await store.append_events(TENANT, EventAppend(response_id, 2, 1, ended, terminal=True))
    assert (await log_state.read(store, TENANT, response_id)).is_over
    await backend.close()
