"""A simulated disk under SQLite that records flushes: it can produce the files that a power cut would leave at any
moment.

    with recording() as disk:
        ...                                     # open a store, write
        disk.leave(folder, dice)                # what might be there if the power went now

SQLite accesses files through a VFS. This VFS is the operating system's own with four wrapped functions: it notes each
write and truncation, and a flush (xSync, which calls fsync) makes the earlier ones certain. Unflushed changes may be
there or not, in any order, and a write may be torn between sectors: the usual model of a disk that loses its cache. The
wrapping uses SQLite's C interface, so nothing has to be compiled.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, ClassVar

SECTOR_BYTES = 512
NAME = b"recording"

_Pointer = c_void_p
_OPEN = ctypes.CFUNCTYPE(c_int, _Pointer, _Pointer, _Pointer, c_int, _Pointer)
_DELETE = ctypes.CFUNCTYPE(c_int, _Pointer, c_char_p, c_int)
_WRITE = ctypes.CFUNCTYPE(c_int, _Pointer, _Pointer, c_int, c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(c_int, _Pointer, c_int64)
_SYNC = ctypes.CFUNCTYPE(c_int, _Pointer, c_int)
_CLOSE = ctypes.CFUNCTYPE(c_int, _Pointer)


class _Vfs(Structure):
    """The struct sqlite3_vfs up to version 3; see sqlite3.h."""

    _fields_: ClassVar = [
        ("iVersion", c_int), ("szOsFile", c_int), ("mxPathname", c_int), ("pNext", _Pointer), ("zName", c_char_p),
        ("pAppData", _Pointer), ("xOpen", _OPEN), ("xDelete", _DELETE), ("rest", _Pointer * 14),
    ]  # fmt: skip


class _Methods(Structure):
    """The struct sqlite3_io_methods up to version 3."""

    _fields_: ClassVar = [
        ("iVersion", c_int), ("xClose", _CLOSE), ("xRead", _Pointer), ("xWrite", _WRITE), ("xTruncate", _TRUNCATE),
        ("xSync", _SYNC), ("rest", _Pointer * 13),
    ]  # fmt: skip


class _File(Structure):
    """The part of the struct sqlite3_file that SQLite knows. The operating system's part follows."""

    _fields_: ClassVar = [("methods", POINTER(_Methods))]


class FileState:
    """One file: its certain content, and the changes that are not certain yet."""

    def __init__(self) -> None:
        self.certain = bytearray()
        self.waiting: list[tuple[int, bytes | None]] = []  # (offset, data), or (size, None) for a truncation
        self.flushes = 0

    def flush(self, changes: int) -> None:
        """Makes the first `changes` waiting changes certain."""
        for change in self.waiting[:changes]:
            _apply(self.certain, *change)
        del self.waiting[:changes]
        self.flushes += 1

    def left(self, dice: random.Random, chance: float) -> bytes:
        """Returns the file after a power cut: each uncertain change is there with this probability, completely or its
        beginning only."""
        content = bytearray(self.certain)
        for offset, data in self.waiting:
            if dice.random() < chance:
                _apply(content, offset, data if dice.random() < 0.5 else _torn(data, dice))
        return bytes(content)


def _torn(data: bytes | None, dice: random.Random) -> bytes | None:
    return data and data[: dice.randrange(0, len(data) + 1, SECTOR_BYTES)]


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


class Disk:
    """A disk with the files that were written through it, by path."""

    def __init__(self) -> None:
        self.files: dict[str, FileState] = {}
        self._lock = threading.Lock()
        self._open: dict[int, str] = {}  # by the address of the open file
        self._keep: list[Any] = []  # objects with C pointers must not be collected

    def leave(self, folder: Path, dice: random.Random, *, chance: float) -> None:
        """Writes the files that a power cut at this moment might leave, under their own names."""
        with self._lock:
            left = {Path(path).name: file.left(dice, chance) for path, file in self.files.items()}
        for name, content in left.items():
            (folder / name).write_bytes(content)

    def wrap(self, below: _Vfs, below_at: int) -> _Vfs:
        made = _Vfs.from_buffer_copy(below)
        made.zName = NAME

        def open_file(_vfs: int, name: int | None, file: int, flags: int, told: int) -> int:
            outcome: int = below.xOpen(below_at, name, file, flags, told)  # SQLite keeps the pointer
            if outcome == 0 and name is not None:
                self._opened(file, ctypes.string_at(name).decode())
            return outcome

        def delete(_vfs: int, name: bytes, flush: int) -> int:
            with self._lock:
                self.files.pop(name.decode(), None)
            return int(below.xDelete(below_at, name, flush))

        made.xOpen, made.xDelete = self._kept(_OPEN(open_file)), self._kept(_DELETE(delete))
        return made

    def _opened(self, file: int, path: str) -> None:
        holder = _File.from_address(file)
        below = holder.methods.contents
        made = _Methods.from_buffer_copy(below)

        def write(at: int, data: int, size: int, offset: int) -> int:
            self._changed(at, offset, ctypes.string_at(data, size))
            return int(below.xWrite(at, data, size, offset))

        def truncate(at: int, size: int) -> int:
            self._changed(at, size, None)
            return int(below.xTruncate(at, size))

        def sync(at: int, flags: int) -> int:
            file = self.files[self._open[at]]
            before = len(file.waiting)  # writes during the flush are not covered by it
            outcome: int = below.xSync(at, flags)
            with self._lock:
                file.flush(before if outcome == 0 else 0)
            return outcome

        made.xWrite, made.xTruncate, made.xSync = (
            self._kept(_WRITE(write)), self._kept(_TRUNCATE(truncate)), self._kept(_SYNC(sync)),
        )  # fmt: skip
        holder.methods = ctypes.pointer(self._kept(made))
        with self._lock:
            self._open[file] = path
            self.files.setdefault(path, FileState())

    def _changed(self, at: int, offset: int, data: bytes | None) -> None:
        with self._lock:
            self.files[self._open[at]].waiting.append((offset, data))

    def _kept(self, value: Any) -> Any:
        self._keep.append(value)
        return value


@contextmanager
def recording() -> Iterator[Disk]:
    """Puts every SQLite file that is opened in the block on the returned disk. All files must be closed at its end."""
    library: Any = ctypes.CDLL(_sqlite3.__file__)  # this module is linked with SQLite
    library.sqlite3_vfs_find.restype = POINTER(_Vfs)
    below = library.sqlite3_vfs_find(None)
    disk = Disk()
    vfs = disk.wrap(below.contents, ctypes.cast(below, c_void_p).value or 0)
    library.sqlite3_vfs_register(ctypes.byref(vfs), 1)
    try:
        yield disk
    finally:
        library.sqlite3_vfs_unregister(ctypes.byref(vfs))
        library.sqlite3_vfs_register(below, 1)
