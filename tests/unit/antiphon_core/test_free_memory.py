from __future__ import annotations

import gc
import weakref

from antiphon_core.free_memory import return_to_system
from antiphon_core.process_load import resident_bytes

SIZE_BYTES, PIECE_BYTES = 256 * 2**20, 2_048


class Cycle:
    """Garbage that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self
        self.pieces = [bytes(PIECE_BYTES) for _ in range(SIZE_BYTES // PIECE_BYTES)]


def test_garbage_and_freed_memory_are_returned_to_the_system() -> None:
    gc.disable()
    try:
        seen = weakref.ref(Cycle())
        before = resident_bytes()
        return_to_system()
        assert seen() is None
        assert resident_bytes() < before - SIZE_BYTES // 2
    finally:
        gc.enable()
