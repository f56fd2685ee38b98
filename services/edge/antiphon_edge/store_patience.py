"""How long a caller waits for a store that does not answer.

A slow answer may be a long history: that is worth waiting for. So a call that takes long is no error by itself; it is
one when the store does not even say that it is ready.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from antiphon_core.errors import StoreUnavailable

SLOW_S = 0.4
READY_S = 0.4
"""Together less than a second: so soon a caller hears that the store is gone."""


class Ready(Protocol):
    async def ready(self) -> None: ...


async def while_it_lives(store: Ready, call: asyncio.Future[Any]) -> None:
    """Returns when the call is done, well or badly. StoreUnavailable: the store shows no sign of life; the call goes
    on, and is its caller's to cancel."""
    while not call.done():
        await asyncio.wait([call], timeout=SLOW_S)
        if not call.done():
            try:
                async with asyncio.timeout(READY_S):
                    await store.ready()
            except TimeoutError as error:
                raise StoreUnavailable("The store does not answer.") from error
