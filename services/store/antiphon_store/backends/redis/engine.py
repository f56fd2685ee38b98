"""What the engine has for its topics: they are written against this, and RedisBackend is all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from antiphon_core.ports.store import Fence
from antiphon_store.backends.redis.calls import Argument
from antiphon_store.backends.redis.keys import Keyspace
from antiphon_store.backends.redis.link import Link
from antiphon_store.backends.redis.scripts import Script


class Engine(Protocol):
    _keys: Keyspace

    @property
    def _opened(self) -> Link: ...

    def _record_keys(self, tenant: str, response_id: str, *fences: tuple[Fence | None, str]) -> list[str]: ...

    async def _run(
        self,
        script: Script,
        tenant: str,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        *,
        session_id: str = "",
    ) -> Sequence[Any]: ...
