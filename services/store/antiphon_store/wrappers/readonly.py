"""A backend that may be read only: for a replica of a database, or while one is copied to another place."""

from __future__ import annotations

from typing import Any

from antiphon_core.errors import StoreUnavailable
from antiphon_store.wrappers.wrapper import Call, Wrapper


class ReadOnlyBackend(Wrapper):
    """Refuses every atom that may write, before the engine hears of it. StoreUnavailable: as the same write succeeds
    on another replica, or here at another time.

    It is ready when the engine is. Opening is the engine's own, so one whose user may not write is opened without
    migrating it. Turns that name a session cannot begin, as they take its lease; all others read their history."""

    async def around(self, call: Call) -> Any:
        if call.writes():
            raise StoreUnavailable(
                f"This store is read-only, and '{call.atom}' writes: nothing was changed. Ask the store that is "
                "written to, or try again when this one may be written to.",
                atom=call.atom,
            )
        return await call.run()
