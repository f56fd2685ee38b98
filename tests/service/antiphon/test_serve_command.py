from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import pytest

from antiphon import lifecycle
from antiphon.cli import main
from antiphon.lifecycle import Part
from antiphon.settings import Settings
from antiphon.workers import service
from antiphon.workers.messages import Failed
from antiphon.workers.supervisor import WorkerFailed


async def run_and_stop(parts: Sequence[Part], *, on_started: Callable[[], None], **_options: object) -> None:
    """Starts and stops the parts like `lifecycle.run`, but waits for no signal."""
    for part in parts:
        await part.start()
    on_started()
    for part in reversed(parts):
        await part.stop()


def test_serve_starts_its_targets_and_prints_their_addresses(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "run", run_and_stop)
    assert main(["serve", "--target=store", "--store-port=0"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("store       127.0.0.1:")
    assert "warning: Responses are kept in memory only." in err
    assert "edge" not in out


@pytest.mark.parametrize("flag", ["--workers=2", "--serve-workers=2"])
def test_serve_with_workers_exits_with_the_status_of_the_supervisor(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(targets: Sequence[str], settings: Settings) -> int:
        assert (targets, settings.serve.workers) == (["edge"], 2)
        return 143

    monkeypatch.setattr(service, "run", run)
    assert main(["serve", "--target=edge", flag]) == 143


def test_serve_exits_with_the_message_and_status_of_a_failed_worker(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(_targets: Sequence[str], _settings: Settings) -> int:
        raise WorkerFailed(Failed("No such file.", 2))

    monkeypatch.setattr(service, "run", run)
    assert main(["serve", "--target=edge", "--workers=2"]) == 2
    assert capfd.readouterr().err == "antiphon: No such file.\n"


def test_a_grpc_port_that_is_in_use_is_one_message(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--target=store", f"--store-port={port}"]) == 1
    last_line = capfd.readouterr().err.splitlines()[-1]
    assert last_line.startswith(f"antiphon: Cannot listen on 127.0.0.1:{port}")
