"""The file: opened with care, read in a few threads, written in groups.

Group commit: one thread runs all primitives that wait in ONE transaction, and their callers are answered when it is
committed; while one transaction waits for the disk, the next one gathers. When a primitive fails, nothing of the
transaction is written, and each of its primitives runs again in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import lmdb
from lmdb.verify import verify

from antiphon_core.errors import StoreUnavailable
from antiphon_lmdb.keys import Transaction

MAP_BYTES = 2**40  # how large the file may become: address space, not disk
READERS = 2  # Python runs one thread at a time; the second reads while the first waits for the disk
WAITING_MAX = 1_000  # past that, waiting longer helps no caller
MARK, FORMAT = b"antiphon", b"1"  # the key that tells the store's files from others, and its value

_Answer = TypeVar("_Answer")
Primitive = Callable[[Transaction], _Answer]

log = logging.getLogger(__name__)


class DataFile:
    """An open file. Made in a thread, used by one event loop; a process may open a file once."""

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        """Opens the file, or makes it. StoreUnavailable: with what is wrong, for an operator."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._environment = lmdb.open(str(path), subdir=False, mode=0o600, map_size=MAP_BYTES, sync=is_synced)
        except (OSError, lmdb.Error) as error:
            raise StoreUnavailable(f"The store's file cannot be opened: {error}.") from error
        (opened,) = self._transact([lambda transaction: _claim(path, self._environment, transaction)])
        if isinstance(opened, Exception):
            self._environment.close()
            raise opened
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="lmdb writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="lmdb reader")
        self._waiting: list[tuple[Primitive[Any], asyncio.Future[Any]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Lets running primitives end. The caller starts no other."""
        if self._writing is not None:
            await self._writing
        for threads in (self._writer, self._readers):
            await asyncio.to_thread(threads.shutdown)
        await asyncio.to_thread(self._environment.sync, force=True)
        self._environment.close()

    async def read(self, primitive: Primitive[_Answer]) -> _Answer:
        """Returns or raises as `primitive` does; it sees everything that was answered before."""

        def read() -> _Answer:
            try:
                with self._environment.begin() as transaction:
                    return primitive(transaction)
            except lmdb.Error as error:
                raise _translate(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def write(self, primitive: Primitive[_Answer]) -> _Answer:
        """Returns or raises as `primitive` does, once its transaction is committed. The primitive may run twice, the
        first time in vain, and runs even when the caller stops waiting. StoreUnavailable: overloaded."""
        if len(self._waiting) >= WAITING_MAX:
            raise StoreUnavailable("The store is overloaded; try again later.")
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((primitive, answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_waiting())
        return await answer

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            outcomes = await loop.run_in_executor(self._writer, self._transact, [primitive for primitive, _ in batch])
            for (_, answer), outcome in zip(batch, outcomes, strict=True):
                if not answer.done():  # its caller may have given up
                    (answer.set_exception if isinstance(outcome, Exception) else answer.set_result)(outcome)

    def _transact(self, primitives: Sequence[Primitive[Any]]) -> list[Any]:
        """Runs primitives, in the thread: for each the value that it returned, or its error."""
        try:
            with self._environment.begin(write=True) as transaction:
                return [primitive(transaction) for primitive in primitives]
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to one caller; the thread goes on
            if len(primitives) == 1:
                return [_translate(error) if isinstance(error, lmdb.Error) else error]
            return [outcome for each in primitives for outcome in self._transact([each])]


def _claim(path: Path, environment: lmdb.Environment, transaction: Transaction) -> None:
    """Marks a new file. StoreUnavailable: it is another program's, has another format, or is damaged."""
    environment.reader_check()  # frees the slots of processes that were killed
    _require_whole(path, environment)
    mark = transaction.get(MARK)
    if mark is None and environment.stat()["entries"]:
        raise StoreUnavailable("The LMDB file belongs to another program; give the store a file of its own.")
    if mark not in (None, FORMAT):
        raise StoreUnavailable("The LMDB file is of another release. Use that release, or a new file.")
    transaction.put(MARK, FORMAT, overwrite=False)


def _require_whole(path: Path, environment: lmdb.Environment) -> None:
    """Refuses a file whose end is missing: LMDB would read it through its memory map, and the process would die of
    SIGBUS. A short file may be whole: LMDB does not write pages that one transaction took and freed. So the pages of
    a short file are checked (other findings of `verify` can be wrong), and the file is filled up."""
    size_bytes = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if path.stat().st_size < size_bytes:
        if any("EOF" in problem for problem in verify(str(path))):  # type: ignore[no-untyped-call]
            raise StoreUnavailable("The LMDB file is damaged: its end is missing. Restore it from a copy.")
        os.truncate(path, size_bytes)


def _translate(error: lmdb.Error) -> StoreUnavailable:
    """Logs an error of LMDB, and returns the one that callers get instead."""
    log.error("lmdb: %s", error, exc_info=error)
    return StoreUnavailable("The store cannot be used: LMDB failed, and the store's log says why.")
