"""Memory that nothing uses any more, and that still counts as memory of the process.

Cyclic garbage waits for a collection, which is rare in a running process (event_loop.py). The C library keeps freed
memory in its arenas, where small objects that live on lie between large ones that are gone.
"""

from __future__ import annotations

import ctypes
import gc


def return_to_system() -> None:
    """Collects garbage and returns free memory to the system. Takes some tenths of a second for a gigabyte."""
    gc.collect()
    if _TRIM is not None:
        _TRIM(0)


_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc. Other C libraries return memory by themselves."""
