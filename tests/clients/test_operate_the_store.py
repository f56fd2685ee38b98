"""Runs the commands of docs/howto/operate-the-store.md in order, on a SQLite file and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from antiphon_store.backends.registry import row_backend
from antiphon_store.rows.model import Change, Kind, Partition, Program, Ref, Set
from antiphon_store.service import StoreService
from tests.support.howto import Block, blocks
from tests.support.postgres_server import PostgresServer, postgres_server
from tests.support.stored_tenant import StoredTenant

BLOCKS = list(blocks(Path(__file__).parents[2] / "docs/howto/operate-the-store.md"))
DATABASE = "postgresql://antiphon@db/antiphon"
ENDS = {"repeat this with --yes": 2, "damage: ": 1}  # the exit statuses that are not 0
TENANTS = {name: StoredTenant(name) for name in ("acme", "globex")}


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """A server for this module alone: the shared server has other tenants."""
    with postgres_server() as server:
        yield server


def test_every_command_prints_the_documented_output(database: PostgresServer, tmp_path: Path) -> None:
    asyncio.run(_fill(tmp_path))
    for block in BLOCKS:
        if block.section == "Look for damage":
            _run("antiphon store import acme.jsonl", tmp_path, database)
            asyncio.run(_damage(tmp_path))
        for command, shown in _commands(block):
            printed = _normal(_run(command, tmp_path, database))
            assert set(_normal(shown)) <= set(printed), f"{command}\n{printed}"
        if block.language == "json":
            _require_export(block.text, tmp_path / "acme.jsonl")


def _commands(block: Block) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the commands of a block, each with its documented output lines."""
    if block.language == "bash":
        yield block.text.splitlines()[-1], ["TENANT KIND ROWS BYTES"]
    for part in block.text.split("$ ")[1:] if block.language == "console" else ():
        command, *shown = part.splitlines()
        yield command, shown


def _run(command: str, folder: Path, database: PostgresServer) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", command.replace(DATABASE, database.url)],
        cwd=folder, env=_environ(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == next((status for says, status in ENDS.items() if says in done.stdout), 0), done.stderr
    return done.stdout.splitlines()


def _environ() -> dict[str, str]:
    """The environment that the first block of the page exports."""
    (exported,) = (block.text for block in BLOCKS if block.language == "bash")
    name, _, value = exported.splitlines()[0].removeprefix("export ").partition("=")
    return os.environ | {name: value, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _normal(lines: Sequence[str]) -> list[str]:
    """Replaces numbers, ids and column widths, which differ from run to run."""
    ids = [re.sub(r"\b(resp|conv|session)_\w+…?", "ID", line) for line in lines]
    return [" ".join(re.sub(r"\b\d[\d,]*", "N", line).split()) for line in ids]


def _require_export(shown: str, path: Path) -> None:
    """Requires the three lines that the page shows: the first line, a node and the last line."""
    header, node, last = shown.splitlines()
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert rows[0] == json.loads(header)
    assert set(rows[-1]) == set(json.loads(last))
    members = set(re.findall(r'"(\w+)":', node))
    assert members in [set(row) for row in rows if row.get("kind") == "node"]


async def _fill(folder: Path) -> None:
    rows = row_backend(f"sqlite:///{folder}/store.db")
    engine = StoreService(rows)
    await engine.open()
    for tenant in TENANTS.values():
        await tenant.fill(engine)
    await engine.close()


async def _damage(folder: Path) -> None:
    """Changes a body, and lets a session name a node that does not exist."""
    acme = TENANTS["acme"]
    changes: list[Change] = [
        Set(Ref(Kind.NODE, acme.line[0].id), {}, body=b"{}"),
        Set(Ref(Kind.SESSION, acme.session), {"head": "resp_gone"}),
    ]
    rows = row_backend(f"sqlite:///{folder}/store.db")
    await rows.open()
    await rows.transact(Partition("acme", acme.session[5:21]), Program(changes=changes))
    await rows.close()
