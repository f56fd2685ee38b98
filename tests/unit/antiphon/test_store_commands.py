from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli import main
from tests.support.postgres_server import shared_postgres


@pytest.fixture
def database() -> str:
    return shared_postgres().url


def test_a_database_is_brought_up_to_date(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["store", "migrate", "--store-url", database]) == 0
        assert capsys.readouterr().out == "The store's schema is up to date.\n"


def test_it_does_so_even_where_services_may_not(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_STORE_URL", database)
    monkeypatch.setenv("ANTIPHON_STORE_MIGRATE", "false")
    assert main(["store", "migrate"]) == 0


def test_a_file_is_made(tmp_path: Path) -> None:
    assert main(["store", "migrate", "--store-url", f"sqlite:///{tmp_path}/store.db"]) == 0
    assert (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("memory://", 2, "antiphon: memory:// has no schema."),
        ("postgresql://127.0.0.1:1/database", 1, "antiphon: The store cannot be used: its database cannot be reached."),
    ],
)
def test_what_cannot_be_done_is_one_line(url: str, status: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "migrate", "--store-url", url]) == status
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith(says)
