"""Makes file permissions apply to root during a block.

Root may read a file of mode 0000 by two capabilities. Linux keeps capabilities for each thread: this thread drops them
and takes them back. Other users have none to drop.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def obeying_permissions() -> Iterator[None]:
    """Drops the capabilities of this thread to read files without permission, during the block."""
    before = _capabilities()
    _set(before[0] & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH), *before[1:])
    try:
        yield
    finally:
        _set(*before)


def _capabilities() -> tuple[int, ...]:
    """Reads the effective, permitted and inheritable capabilities of this thread, for 0 to 31 and then for 32 to 63."""
    found = (ctypes.c_uint32 * 6)()
    _call(_libc.capget, found)
    return tuple(found)


def _set(*capabilities: int) -> None:
    _call(_libc.capset, (ctypes.c_uint32 * 6)(*capabilities))


def _call(function: object, data: object) -> None:
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    if function(ctypes.byref(header), data) != 0:  # type: ignore[operator]
        raise OSError(ctypes.get_errno(), "the capabilities of this thread could not be read or set")
