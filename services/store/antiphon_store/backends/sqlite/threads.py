"""What the parts of SqliteBackend have in common: the thread that writes, those that read, and the clock."""

from __future__ import annotations

from typing import Protocol

from antiphon_store.backends.sqlite.readers import Readers
from antiphon_store.backends.sqlite.writer import Writer


class Threads(Protocol):
    @property
    def _writes(self) -> Writer: ...

    @property
    def _reads(self) -> Readers: ...

    def _now_ms(self) -> int: ...
