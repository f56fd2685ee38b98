"""The text of a process's metrics for many readers at once.

Writing the text takes milliseconds of Python, so readers share it: those that ask while a text is written wait for the
next one together. At most one text is begun in PACE_S. A text is never older than the request that it answers, and a
reader that is alone does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from antiphon_core.telemetry.exposition import Exposition, format_of

PACE_S = 0.1

_Texts = Mapping[str, tuple[bytes, str]]  # by format


class SharedExposition:
    """Writes the text of an exposition, outside of the event loop that asks for it."""

    def __init__(self, exposition: Exposition, *, pace_s: float = PACE_S) -> None:
        self._exposition = exposition
        self._pace_s = pace_s
        self._formats: set[str] = set()  # that the readers of the next text asked for
        self._next: asyncio.Task[_Texts] | None = None  # not begun
        self._is_writing = asyncio.Lock()
        self._begun_s = -pace_s

    async def text(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format that an `Accept` header asks for, and the content type."""
        wanted = format_of(accept)
        if self._next is None:
            self._formats = set()
            self._next = asyncio.create_task(self._write(self._formats))
        self._formats.add(wanted)
        return (await asyncio.shield(self._next))[wanted]  # a reader that leaves does not take it from the others

    async def _write(self, formats: set[str]) -> _Texts:
        async with self._is_writing:
            now_s = asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, self._begun_s + self._pace_s - now_s))
            self._begun_s = asyncio.get_running_loop().time()
            self._next = None
            return await asyncio.to_thread(lambda: {each: self._exposition.text(each) for each in formats})
