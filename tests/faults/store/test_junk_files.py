"""A store file that cannot be read: the store prints the reason in one sentence, and ends."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.waiting import WAIT_MAX_S


def _junk(path: Path) -> None:
    path.write_bytes(b"Not a database. " * 1_000)


def _damaged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE node (text)")
        connection.commit()
    content = bytearray(path.read_bytes())
    content[100:1_000] = b"x" * 900
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "reason"),
    [(_junk, "not an SQLite database"), (_damaged, "its file is damaged"), (_folder, "its file cannot be opened")],
)
def test_a_store_that_cannot_read_its_file_says_so_without_a_traceback(
    tmp_path: Path, make: object, reason: str
) -> None:
    path = tmp_path / "store.db"
    assert callable(make)
    make(path)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "antiphon",
            "serve",
            "--target=store",
            f"--store-url=sqlite:///{path}",
            "--store-port=0",
        ],
        capture_output=True,
        text=True,
        timeout=WAIT_MAX_S,
        check=False,
    )
    assert ran.returncode != 0
    assert reason in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
