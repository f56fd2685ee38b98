from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from antiphon.cli import main
from antiphon_core import lifecycle
from antiphon_core.lifecycle import Part


async def run_and_stop(parts: Sequence[Part], *, on_started: Callable[[], None]) -> None:
    """`lifecycle.run`, without waiting for a signal."""
    for part in parts:
        await part.start()
    on_started()
    for part in reversed(parts):
        await part.stop()


def test_the_targets_are_started_and_their_addresses_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "run", run_and_stop)
    assert main(["serve", "--target=store", "--store-port=0"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("store       127.0.0.1:")
    assert "warning: Responses are kept in memory only." in err
    assert "edge" not in out
