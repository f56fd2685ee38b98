"""A whole scripted system for commands that need a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted_system import scripted_system_in_a_thread


@pytest.fixture(scope="session")
def base_url() -> Iterator[str]:
    with scripted_system_in_a_thread() as url:
        yield f"{url}/v1"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
