"""What is peculiar about spending on SQLite. What it does: the suites of spending."""

from __future__ import annotations

from pathlib import Path

from antiphon_core.ports.spending import Draw, Spend
from antiphon_store.backends.sqlite.backend import SqliteBackend

ONE = Draw("requests", amount=1, at_least=1, capacity=60, per_minute=60)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.iterdir()}


async def test_each_process_counts_by_itself_and_the_file_does_not_change(tmp_path: Path) -> None:
    backends = [SqliteBackend(tmp_path / "store.db") for _ in range(2)]
    for backend in backends:
        await backend.open()
    before = contents(tmp_path)
    for backend in backends:
        (level,) = (await backend.spend("t", Spend([ONE]))).levels
        assert level.level == 59
    assert contents(tmp_path) == before
    for backend in backends:
        await backend.close()
