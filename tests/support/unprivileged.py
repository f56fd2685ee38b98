"""Makes file permissions count for root, too, for a test's moment.

Root may read a file of mode 0000 by two capabilities. Linux keeps them for each thread: this one gives them up and
takes them back. Any other user has none to give up.
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
    """In this block this thread may not read what its user may not."""
    before = _capabilities()
    _set(before[0] & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH), *before[1:])
    try:
        yield
    finally:
        _set(*before)


def _capabilities() -> tuple[int, ...]:
    """The effective, permitted and inheritable capabilities of this thread, for 0 to 31 and then for 32 to 63."""
    found = (ctypes.c_uint32 * 6)()
    _call(_libc.capget, found)
    return tuple(found)


def _set(*capabilities: int) -> None:
    _call(_libc.capset, (ctypes.c_uint32 * 6)(*capabilities))


def _call(function: object, data: object) -> None:
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    if function(ctypes.byref(header), data) != 0:  # type: ignore[operator]
        raise OSError(ctypes.get_errno(), "the capabilities of this thread could not be read or set")
