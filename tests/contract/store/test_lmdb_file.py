"""The example of a backend in another package (examples/lmdb_store): its file, its threads, its address."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import lmdb
import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError, ResponseNotFound, StoreUnavailable
from antiphon_lmdb.backend import LmdbRows, lmdb_rows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import Applied, Get, Kind, Partition, Program, Put, Ref
from antiphon_store.rows.view import View
from tests.support.children import start_child

PARTITION = Partition("tenant", "tree")

ANOTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from antiphon_lmdb.backend import LmdbRows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import Kind, Partition, Program, Put, Ref

async def main():
    rows = LmdbRows(Path(sys.argv[1]), durability=Durability.PROCESS)
    await rows.open()
    change = Put(Ref(Kind.SESSION, "theirs"), {"head": "x"})
    await rows.transact(Partition("tenant", "tree"), Program(changes=[change]))
    print("written", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.lmdb"


@pytest.fixture
async def rows(path: Path) -> AsyncIterator[LmdbRows]:
    rows = LmdbRows(path, durability=Durability.PROCESS, clock=ManualClock())
    await rows.open()
    yield rows
    await rows.close()


async def open_once(path: Path) -> None:
    rows = LmdbRows(path)
    await rows.open()
    await rows.close()


def fill(path: Path, content: bytes = b"") -> None:
    path.parent.mkdir()
    path.write_bytes(content)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def another_process(path: Path) -> subprocess.Popen[bytes]:
    """Writes a row and waits for the end of its input."""
    return start_child(
        [sys.executable, "-c", ANOTHER_PROCESS, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def put(row_id: str, body: bytes = b"") -> Program:
    return Program(changes=[Put(Ref(Kind.SESSION, row_id), {}, b"", body)])


async def has(rows: LmdbRows, row_id: str) -> bool:
    outcome = await rows.transact(PARTITION, Program(reads=[Get(Ref(Kind.SESSION, row_id))]))
    assert isinstance(outcome, Applied)
    return outcome.answers[0] is not None


async def outcomes_of(*calls: Awaitable[Any]) -> list[Any]:
    """The results and errors of concurrent calls."""
    return await asyncio.gather(*calls, return_exceptions=True)


def environment_of(rows: LmdbRows) -> lmdb.Environment:
    return rows._file._environment


# ---- The file ----


@pytest.mark.usefixtures("rows")
def test_a_new_file_is_readable_by_its_owner_only(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + bytes(8000)])
async def test_a_file_that_is_not_lmdbs_is_refused(path: Path, content: bytes) -> None:
    fill(path, content)
    with pytest.raises(StoreUnavailable, match="not an LMDB file"):
        await open_once(path)
    assert content_of(path) == content


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [(b"theirs", b"x", "belongs to another program"), (b"antiphon", b"2", "of another release")],
)
async def test_a_file_of_another_program_or_release_is_refused(
    path: Path, key: bytes, value: bytes, words: str
) -> None:
    fill(path)
    with lmdb.open(str(path), subdir=False) as environment, environment.begin(write=True) as transaction:
        transaction.put(key, value)
    with pytest.raises(StoreUnavailable, match=words):
        await open_once(path)


async def test_a_truncated_file_is_rejected(path: Path) -> None:
    rows = LmdbRows(path)
    await rows.open()
    for number in range(20):
        await rows.transact(PARTITION, put(str(number), bytes(20_000)))
    await rows.close()
    os.truncate(path, len(content_of(path)) // 2)
    with pytest.raises(StoreUnavailable, match="its end is missing"):
        await open_once(path)


async def test_a_file_that_ends_before_its_free_pages_is_opened(path: Path) -> None:
    rows = LmdbRows(path)
    await rows.open()
    await rows.transact(PARTITION, put("kept"))
    for value_bytes in range(10_000, 100_000, 10_000):
        with environment_of(rows).begin(write=True) as transaction:
            for number in range(20):  # these pages are taken and freed, and never written
                transaction.put(b"%d" % number, bytes(value_bytes))
            for number in range(20):
                transaction.delete(b"%d" % number)
    await rows.close()
    size_bytes = len(content_of(path))
    await open_once(path)
    assert len(content_of(path)) > size_bytes, "it was short"
    await rows.open()
    assert await has(rows, "kept")
    await rows.close()


async def test_a_file_that_is_open_in_this_process_is_refused(path: Path, rows: LmdbRows) -> None:
    with pytest.raises(StoreUnavailable, match="already open in this process"):
        await open_once(path)


async def test_a_path_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await open_once(tmp_path / "file" / "store.lmdb")


async def test_writes_of_another_process_survive_its_kill(path: Path, rows: LmdbRows) -> None:
    await rows.transact(PARTITION, put("ours"))
    with another_process(path) as child:
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == b"written\n"
        assert await has(rows, "theirs")
        await rows.transact(PARTITION, put("ours too"))
        child.send_signal(signal.SIGKILL)
    await rows.transact(PARTITION, put("ours again"))
    await rows.close()
    await rows.open()
    assert [await has(rows, each) for each in ("ours", "theirs", "ours too", "ours again")] == [True] * 4


# ---- Groups ----


async def test_writes_that_wait_share_a_transaction(rows: LmdbRows) -> None:
    before = environment_of(rows).info()["last_txnid"]
    await asyncio.gather(*(rows.transact(PARTITION, put(str(number))) for number in range(100)))
    assert environment_of(rows).info()["last_txnid"] - before <= 2
    assert all([await has(rows, str(number)) for number in range(100)])


@pytest.mark.parametrize("error", [ResponseNotFound("r"), ValueError("a mistake")])
async def test_a_failed_write_is_undone_without_its_neighbours(rows: LmdbRows, error: Exception) -> None:
    def decide(view: View) -> Callable[[Sequence[Any]], None]:
        def fail(_answers: Sequence[Any]) -> None:
            raise error

        view.put(Kind.SESSION, "undone", {})
        return fail

    one, failed, two = await outcomes_of(
        rows.transact(PARTITION, put("one")),
        rows.decide(PARTITION, decide, only_reads=False),
        rows.transact(PARTITION, put("two")),
    )
    assert failed is error
    assert isinstance(one, Applied)
    assert isinstance(two, Applied)
    assert [await has(rows, each) for each in ("one", "two", "undone")] == [True, True, False]


async def test_an_lmdb_error_is_logged_and_raised_as_store_unavailable(
    rows: LmdbRows, caplog: pytest.LogCaptureFixture
) -> None:
    one, refused = await outcomes_of(rows.transact(PARTITION, put("one")), rows.transact(PARTITION, put("x" * 600)))
    assert isinstance(one, Applied)
    assert isinstance(refused, StoreUnavailable)
    assert "log says why" in refused.message
    assert "MDB_BAD_VALSIZE" in caplog.text


async def test_a_failed_decision_releases_its_reader_slot(rows: LmdbRows) -> None:
    def decide(view: View) -> Callable[[Sequence[Any]], None]:
        view.need(Kind.SESSION, "s")
        raise ResponseNotFound("r")

    for _ in range(150):  # more than there are slots
        with pytest.raises(AntiphonError):
            await rows.decide(PARTITION, decide, only_reads=True)
    assert len(environment_of(rows).readers().splitlines()) < 10


# ---- The address ----


@pytest.mark.parametrize(("address", "path"), [("/a/b.lmdb", "a/b.lmdb"), ("//var/b.lmdb", "/var/b.lmdb")])
def test_an_address_names_a_file(address: str, path: str) -> None:
    rows = lmdb_rows(address, Durability.PROCESS, ManualClock())
    assert rows._path == Path(path)
    assert rows.durability is Durability.PROCESS


@pytest.mark.parametrize("address", ["", "/", "host/a.lmdb", "/folder/", "/a.lmdb?mode=ro"])
def test_an_invalid_address_is_rejected_with_advice(address: str) -> None:
    with pytest.raises(SettingsError, match="write lmdb:///FILE"):
        lmdb_rows(address, Durability.DISK, ManualClock())


@pytest.mark.parametrize("durability", [Durability.MEMORY, Durability.QUORUM])
def test_a_durability_that_lmdb_lacks_is_refused(durability: Durability) -> None:
    with pytest.raises(SettingsError, match=durability):
        lmdb_rows("/a.lmdb", durability, ManualClock())
