from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon import store_commands
from antiphon.cli import main
from antiphon.progress import ProgressLine
from antiphon_core.jsons import dumps, loads
from antiphon_store.backends import registry
from antiphon_store.backends.registry import row_backend
from antiphon_store.encryption import configured_rows
from antiphon_store.rows.model import Kind, Partition, Program, Ref, Set
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from tests.support.postgres_server import postgres_server, shared_postgres
from tests.support.redis_servers import shared_redis
from tests.support.stored_tenant import StoredTenant


@pytest.fixture
def database() -> str:
    return shared_postgres().url


def test_migrate_brings_a_database_up_to_date(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["store", "migrate", "--store-url", database]) == 0
        assert capsys.readouterr().out == "The store's schema is up to date.\n"


def test_migrate_runs_although_store_migrate_is_false(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_STORE_URL", database)
    monkeypatch.setenv("ANTIPHON_STORE_MIGRATE", "false")
    assert main(["store", "migrate"]) == 0


def test_migrate_creates_a_sqlite_file(tmp_path: Path) -> None:
    assert main(["store", "migrate", "--store-url", f"sqlite:///{tmp_path}/store.db"]) == 0
    assert (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("memory://", 2, "antiphon: memory:// keeps nothing."),
        ("postgresql://127.0.0.1:1/database", 1, "antiphon: The store cannot be used: its database cannot be reached."),
    ],
)
def test_migrate_of_an_unusable_store_prints_an_error(
    url: str, status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "migrate", "--store-url", url]) == status
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith(says)


# ---- Maintenance ----

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a store command and returns its exit status and printed lines."""

    def run_one(*arguments: object) -> tuple[int, list[str]]:
        status = main(["store", *map(str, arguments)])
        printed = capsys.readouterr()
        return status, [*printed.out.splitlines(), *printed.err.splitlines()]

    return run_one


def with_store(url: str, use: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    return with_engine(StoreService(row_backend(url)), use)


def with_engine(engine: StoreService, use: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    async def open_and_use() -> Any:
        await engine.open()
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(open_and_use())


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    monkeypatch.setenv("ANTIPHON_STORE_URL", url)
    return url


@pytest.fixture
def stored(url: str) -> StoredTenant:
    stored = StoredTenant("acme")
    with_store(url, stored.fill)
    return stored


def test_a_backup_is_restored(url: str, stored: StoredTenant, run: Run, tmp_path: Path) -> None:
    expected = with_store(url, stored.answers)
    assert run("backup", tmp_path / "b") == (
        0,
        [f"{tmp_path}/b is a backup of the store, as it was when the command began."],
    )
    again = f"sqlite:///{tmp_path}/again.db"
    assert run("restore", tmp_path / "b", "--store-url", again) == (0, [f"The store is what {tmp_path}/b was."])
    assert with_store(again, stored.answers) == expected
    assert run("restore", tmp_path / "b") == (1, [f"antiphon: {tmp_path}/store.db exists already. Move it away first."])
    assert run("backup", tmp_path / "b") == (1, [f"antiphon: {tmp_path}/b exists already. Move it away first."])


def test_an_exported_tenant_is_imported_into_another_database(
    url: str, stored: StoredTenant, run: Run, tmp_path: Path
) -> None:
    expected = with_store(url, stored.answers)
    with postgres_server() as server:
        there = ("--store-url", server.url)
        status, (line,) = run("export", "--tenant", "acme", tmp_path / "acme.jsonl")
        assert (status, line.startswith(f"{tmp_path}/acme.jsonl holds ")) == (0, True)
        assert run("import", tmp_path / "acme.jsonl", *there)[1][-1].endswith("run `antiphon store migrate`.")
        run("migrate", *there)
        status, (line,) = run("import", tmp_path / "acme.jsonl", *there)
        assert (status, line.endswith("rows were written, 0 were there before.")) == (0, True)
        assert with_store(server.url, stored.answers) == expected
        assert run("import", tmp_path / "acme.jsonl", *there) == (
            1,
            ["antiphon: Tenant 'acme' has data already. Give --merge to add to them."],
        )
        assert run("import", tmp_path / "acme.jsonl", "--merge", *there)[1][0].startswith("0 rows were written")
        assert run("verify", *there) == (0, [CLEAN])


CLEAN = "0 damaged, 0 hints. A hint is a name whose row is missing; it does no harm."


def test_maintenance_of_a_sealed_store_needs_its_encryption_keys(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup is sealed. The export is plain text and can be imported into any store."""
    keys, url, again = tmp_path / "keys", f"sqlite:///{tmp_path}/store.db", f"sqlite:///{tmp_path}/again.db"
    keys.write_text(f"one {'0' * 64}\n")
    monkeypatch.setenv("ANTIPHON_STORE_URL", url)
    stored, settings = StoredTenant("acme"), StoreSettings(url=url, encryption_keys_file=keys)
    run("migrate")

    async def fill_and_answer(engine: StoreService) -> Any:
        await configured_rows.require_readable(rows, settings)
        await stored.fill(engine)
        return await stored.answers(engine)

    rows = configured_rows.rows_of(settings)
    expected = with_engine(StoreService(rows), fill_and_answer)
    sealed = ("--store-encryption-keys-file", keys)
    assert run("verify", *sealed) == (0, [CLEAN])
    assert run("export", "--tenant", "acme", tmp_path / "acme.jsonl", *sealed)[0] == 0
    assert dumps(stored.line[0].body.decode()) in (tmp_path / "acme.jsonl").read_bytes()
    run("migrate", "--store-url", again)
    assert run("import", tmp_path / "acme.jsonl", "--store-url", again)[0] == 0
    assert with_store(again, stored.answers) == expected
    assert run("backup", tmp_path / "b")[0] == 0
    for file in (tmp_path / "store.db", tmp_path / "b"):
        assert stored.line[0].body not in file.read_bytes()
    status, (line,) = run("verify")
    assert (status, line.startswith("antiphon: This store is sealed: set store.encryption_keys_file")) == (2, True)
    keys.write_text(f"two {'1' * 64}\n")
    assert run("stats", *sealed)[1][-1] == (
        "antiphon: store.encryption_keys_file does not hold the key that this store is sealed with, "
        "or has another key under its id."
    )


def test_an_export_has_plain_json_bodies(stored: StoredTenant, run: Run, tmp_path: Path) -> None:
    run("export", "--tenant", "acme", tmp_path / "acme.jsonl")
    lines = [loads(line) for line in (tmp_path / "acme.jsonl").read_bytes().splitlines()]
    (node,) = [each for each in lines if each.get("id") == stored.line[0].id and each["kind"] == "node"]
    assert loads(node["body"]) == loads(stored.line[0].body)
    assert lines[-1] == {"rows": len(lines) - 2}


def test_erase_removes_the_bytes_of_a_tenant_from_the_file(stored: StoredTenant, run: Run, tmp_path: Path) -> None:
    unique = stored.line[0].id[-12:].encode()
    assert unique in (tmp_path / "store.db").read_bytes()
    status, (line,) = run("erase", "--tenant", "acme")
    assert (status, line.endswith("Stop its callers, then repeat this with --yes.")) == (2, True)
    assert unique in (tmp_path / "store.db").read_bytes()
    status, (line,) = run("erase", "--tenant", "acme", "--yes")
    assert (status, line.endswith("are erased. Backups and exports still hold them.")) == (0, True)
    assert run("stats")[1] == ["TENANT  KIND  ROWS  BYTES"]
    assert unique not in (tmp_path / "store.db").read_bytes()
    with closing(sqlite3.connect(tmp_path / "store.db")) as file:
        for table in ("tree", "node", "row", "entry"):
            assert file.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_verify_reports_damage_with_exit_status_1(url: str, stored: StoredTenant, run: Run) -> None:
    assert run("verify") == (0, [CLEAN])

    async def damage() -> None:
        rows = row_backend(url)
        await rows.open()
        tree = Partition("acme", stored.session[5:21])
        await rows.transact(tree, Program(changes=[Set(Ref(Kind.NODE, stored.line[0].id), {}, body=b"{}")]))
        await rows.close()

    asyncio.run(damage())
    assert run("verify", "--of", "acme") == (
        1,
        [
            f"damage: tenant acme: node {stored.line[0].id}: the checksum of its body differs",
            "1 damaged, 0 hints. A hint is a name whose row is missing; it does no harm.",
        ],
    )
    assert run("verify", "--of", "globex") == (0, [CLEAN])


def test_stats_prints_an_aligned_table(stored: StoredTenant, run: Run) -> None:
    status, lines = run("stats")
    assert status == 0
    assert lines[0].split() == ["TENANT", "KIND", "ROWS", "BYTES"]
    rows = {kind: int(count) for _tenant, kind, count, _size in map(str.split, lines[1:])}
    assert rows["node"] == 8
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize("command", ["backup", "restore", "export", "import", "erase", "verify", "stats", "migrate"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["store", command, "--help"])
    assert ended.value.code == 0
    assert "--store-url" in capsys.readouterr().out


def test_failed_store_commands_print_a_short_error(url: str, run: Run, tmp_path: Path) -> None:
    missing = f"antiphon: There is no file {tmp_path}/store.db. 'antiphon store migrate' makes an empty store."
    assert run("verify") == (2, [missing])
    assert not (tmp_path / "store.db").exists()
    assert run("backup", tmp_path / "b") == (1, [f"antiphon: {tmp_path}/store.db does not exist."])
    run("migrate")
    assert run("backup", tmp_path / "none" / "b") == (
        1,
        [f"antiphon: {tmp_path}/none/b cannot be written: No such file or directory."],
    )
    assert run("import", tmp_path / "none") == (1, [f"antiphon: {tmp_path}/none: No such file or directory"])
    assert run("import", tmp_path / "store.db")[1] == ["antiphon: Line 1 of the export is not JSON."]
    status, (line,) = run("backup", tmp_path / "b", "--store-url", shared_redis().url)
    assert (status, line.startswith("antiphon: Back up this database with its own tools.")) == (2, True)
    status, lines = run("stats", "--store-url", "postgresql://127.0.0.1:1/database")
    assert (status, len(lines)) == (1, 2), "what the database says, and what that means"


def test_a_backend_without_maintenance_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "row_backend", lambda *_arguments, **_options: object())
    monkeypatch.setenv("ANTIPHON_STORE_URL", "lmdb:///store.lmdb")
    for command in (["stats"], ["export", "--tenant", "acme", "file"], ["backup", "file"]):
        status, (line,) = run(*command)
        assert (status, "this database" in line) == (2, True), command


def test_store_commands_report_progress(
    stored: StoredTenant, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    class Counting(ProgressLine):
        def __call__(self, count: int) -> None:
            counts.append(count)

    monkeypatch.setattr(store_commands, "ProgressLine", Counting)
    commands = [("backup", tmp_path / "b"), ("export", "--tenant", "acme", tmp_path / "e"), ("verify",), ("stats",)]
    for each in [*commands, ("erase", "--tenant", "acme", "--yes"), ("import", tmp_path / "e")]:
        counts.clear()
        assert run(*each)[0] == 0
        assert counts, each
