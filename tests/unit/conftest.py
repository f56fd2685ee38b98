"""Fails a unit test that starts a process, listens on a socket or waits longer than 0.2 s in real time.

Such a test belongs in tests/service.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.unit_guard import installed_guard

guard = installed_guard()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    guard.effects.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Checks for effects after the test and its fixtures, because effects of fixtures count, too."""
    yield
    if found := [f"{effect}: {detail}" for effect, detail in guard.effects]:
        pytest.fail(
            "\n".join(["a unit test starts no process, does not listen and does not wait:", *found]), pytrace=False
        )
