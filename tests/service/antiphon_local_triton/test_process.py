from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from antiphon_local_triton import process
from antiphon_local_triton.process import ServerProcess, remove_shared_memory
from antiphon_local_triton.triton import TritonCommand
from tests.support.waiting import WAIT_MAX_S


def command(script: str) -> TritonCommand:
    return TritonCommand(argv=("/bin/sh", "-c", script), environment=dict(os.environ))


async def test_output_of_the_server_is_written_to_the_log(tmp_path: Path) -> None:
    run = await ServerProcess.start(command("echo out; echo err >&2; exit 3"), tmp_path / "logs/a.log")
    assert await run.wait(WAIT_MAX_S)
    assert run.exit_code == 3
    assert (tmp_path / "logs/a.log").read_text() == "out\nerr\n"


async def test_cancellation_is_kept_when_the_process_ends_at_that_moment() -> None:
    ended = asyncio.get_running_loop().create_future()
    run = ServerProcess(cast("asyncio.subprocess.Process", SimpleNamespace(wait=lambda: ended)))
    waiting = asyncio.create_task(run.wait(WAIT_MAX_S))
    await asyncio.sleep(0)
    ended.set_result(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_the_end_of_a_child_is_reported_and_stop_kills_the_group(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    run = await ServerProcess.start(command("sleep 60 & echo $!; sleep 60 & echo $!; wait"), log)
    async with asyncio.timeout(WAIT_MAX_S):
        while len(children := log.read_text().split()) < 2:
            await asyncio.sleep(0.01)
        ended = run.child_ended()
        assert not await run.wait(0.01)
        assert not ended.done()
        os.kill(int(children[1]), signal.SIGKILL)
        assert await ended == int(children[1])
    assert run.exit_code is None
    await run.stop(grace_s=0)
    assert all(process._stat(int(pid)).state in "ZX" for pid in children)
    assert run.exit_code == -9


async def test_a_server_keeps_running_if_its_children_cannot_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_pid: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refused)
    log = tmp_path / "a.log"
    run = await ServerProcess.start(command("sleep 60 & echo up; wait"), log)
    async with asyncio.timeout(WAIT_MAX_S):
        while "up" not in log.read_text():
            await asyncio.sleep(0.01)
    ended = run.child_ended()
    assert not ended.done()
    await run.stop(grace_s=0)
    assert not ended.done()
    ended.cancel()


async def test_stop_kills_the_orphans_of_a_dead_server(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    run = await ServerProcess.start(command("sleep 60 & echo $!; exit 1"), log)
    assert await run.wait(WAIT_MAX_S)
    orphan = int(log.read_text())
    assert process._stat(orphan).state not in "ZX"
    await run.stop(grace_s=0)
    assert process._stat(orphan).state in "ZX"


async def test_stop_lets_the_server_end_after_sigterm(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    log = tmp_path / "a.log"
    run = await ServerProcess.start(command(script), log)
    async with asyncio.timeout(WAIT_MAX_S):
        while "up" not in log.read_text():
            await asyncio.sleep(0.01)
    await run.stop(grace_s=WAIT_MAX_S)
    await run.stop(grace_s=WAIT_MAX_S)
    assert (run.exit_code, log.read_text()) == (0, "up\nbye\n")


async def test_a_large_log_is_rotated(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * (process.LOG_BYTES_MAX + 1))
    run = await ServerProcess.start(command("echo new"), log)
    await run.wait(WAIT_MAX_S)
    assert log.read_text() == "new\n"
    assert (tmp_path / "a.old.log").stat().st_size == process.LOG_BYTES_MAX + 1


def test_only_shared_memory_of_the_prefix_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SHARED_MEMORY", tmp_path)
    for name in ("antiphon-1-a", "antiphon-1-b", "antiphon-2-a", "other"):
        (tmp_path / name).touch()
    remove_shared_memory("antiphon-1-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["antiphon-2-a", "other"]
