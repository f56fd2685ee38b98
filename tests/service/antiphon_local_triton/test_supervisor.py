import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.supervisor import LocalTriton, Supervision, TritonState
from antiphon_local_triton.triton import TritonCommand, TritonPorts
from tests.support.waiting import WAIT_MAX_S

FAKE = Path(__file__).with_name("fake_server.py")
QUICK = Supervision(poll_s=0.05, stop_grace_s=0.3, backoff_first_s=0.05, backoff_max_s=0.1, failed_starts_max=2)


@asynccontextmanager
async def _running(
    folder: Path, behaviour: str, *, supervision: Supervision = QUICK, report: Callable[[str], None] = print
) -> AsyncIterator[LocalTriton]:
    def command_for(_ports: TritonPorts) -> TritonCommand:
        (folder / "ready").unlink(missing_ok=True)
        return TritonCommand((sys.executable, "-u", str(FAKE), behaviour, str(folder)), os.environ)

    async def probe(_address: str, _models: Sequence[str]) -> bool:
        return (folder / "ready").exists()

    local = LocalTriton(command_for, data_dir=folder, probe=probe, supervision=supervision, report=report)
    await local.start()
    try:
        yield local
    finally:
        await local.stop()


def _is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] not in "ZX"


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_supervised_server_becomes_ready_and_stops(tmp_path: Path) -> None:
    async with _running(tmp_path, "works") as local:
        await local.wait_ready(WAIT_MAX_S)
        pid, child = local.pid, int((tmp_path / "child").read_text())
        assert pid is not None
        assert local.grpc_address in local.reason
    assert local.state is TritonState.STOPPED
    assert local.pid is None
    await _until(lambda: not _is_running(pid) and not _is_running(child))


async def test_a_server_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    async with _running(tmp_path, "ignores-sigterm") as local:
        await local.wait_ready(WAIT_MAX_S)
        started_s = time.monotonic()
    assert 0.2 < time.monotonic() - started_s < WAIT_MAX_S


async def test_a_dead_server_is_started_again_on_the_same_address(tmp_path: Path) -> None:
    said: list[str] = []
    async with _running(tmp_path, "dies-once", report=said.append) as local:
        await local.wait_ready(WAIT_MAX_S)
        address, pid = local.grpc_address, local.pid
        (tmp_path / "die").touch()
        await _until(lambda: local.pid not in (None, pid))
        await local.wait_ready(WAIT_MAX_S)
        assert local.grpc_address == address
    assert said == ["triton: the Triton server ended with exit code 3"]


async def test_a_killed_child_restarts_the_server(tmp_path: Path) -> None:
    async with _running(tmp_path, "works") as local:
        await local.wait_ready(WAIT_MAX_S)
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
        await _until(lambda: local.state is TritonState.RESTARTING)
        assert "stub process" in local.reason
        await local.wait_ready(WAIT_MAX_S)


async def test_repeated_failed_starts_end_as_failed_with_the_reason(tmp_path: Path) -> None:
    async with _running(tmp_path, "fails") as local:
        with pytest.raises(LocalModelError, match="failed to load 'tensorrt_llm' version 1: Internal: no such file"):
            await local.wait_ready(WAIT_MAX_S)
        assert local.state is TritonState.FAILED
        assert len((tmp_path / "starts").read_text()) == QUICK.failed_starts_max


async def test_the_failure_reason_comes_from_the_last_run(tmp_path: Path) -> None:
    (tmp_path / "triton.log").write_text("error: of a run before\n")
    async with _running(tmp_path, "cannot-listen", supervision=replace(QUICK, failed_starts_max=1)) as local:
        with pytest.raises(LocalModelError, match="error: the port is taken"):
            await local.wait_ready(WAIT_MAX_S)


async def test_a_server_that_is_not_ready_within_the_start_timeout_fails(tmp_path: Path) -> None:
    short = Supervision(poll_s=0.05, start_timeout_s=0.2, failed_starts_max=1, stop_grace_s=0)
    async with _running(tmp_path, "never-ready", supervision=short) as local:
        with pytest.raises(LocalModelError, match=r"was not ready within 0\.2 s"):
            await local.wait_ready(WAIT_MAX_S)
        assert local.pid is None


async def test_wait_ready_ends_after_its_timeout(tmp_path: Path) -> None:
    async with _running(tmp_path, "works") as local:
        with pytest.raises(LocalModelError, match=r"not ready after 0\.001 s: starting"):
            await local.wait_ready(0.001)


async def test_a_missing_server_program_raises_local_model_error(tmp_path: Path) -> None:
    def command_for(_ports: TritonPorts) -> TritonCommand:
        return TritonCommand((str(tmp_path / "no-such-server"),), os.environ)

    local = LocalTriton(command_for, data_dir=tmp_path, supervision=QUICK)
    await local.start()
    with pytest.raises(LocalModelError, match="ended with exit code"):
        await local.wait_ready(WAIT_MAX_S)
    await local.stop()


async def test_two_servers_cannot_share_a_data_folder(tmp_path: Path) -> None:
    async with _running(tmp_path, "works"):
        with pytest.raises(LocalModelError, match="already runs"):
            async with _running(tmp_path, "works"):
                pass
    async with _running(tmp_path, "works") as local:
        await local.wait_ready(WAIT_MAX_S)


async def test_files_are_prepared_only_by_the_holder_of_the_data_folder(tmp_path: Path) -> None:
    prepared: list[str] = []

    def nothing(_ports: TritonPorts) -> TritonCommand:
        return TritonCommand(("/bin/false",), {})

    async with _running(tmp_path, "works"):
        second = LocalTriton(nothing, data_dir=tmp_path, prepare=lambda: prepared.append("second"))
        with pytest.raises(LocalModelError, match="Another antiphon"):
            await second.start()
    assert prepared == []
    third = LocalTriton(nothing, data_dir=tmp_path, prepare=lambda: prepared.append("third"))
    await third.start()
    await third.stop()
    assert prepared == ["third"]


async def test_the_server_dies_with_its_parent(tmp_path: Path) -> None:
    script = f"""
import os, subprocess, sys, time
from antiphon_local_triton.process import ORPHAN_GUARD
server = subprocess.Popen([sys.executable, "-I", str(ORPHAN_GUARD), str(os.getpid()), {sys.executable!r}, "-u",
                           {str(FAKE)!r}, "works", {str(tmp_path)!r}], start_new_session=True)
print(server.pid, flush=True)
time.sleep(1000)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert parent.stdout is not None
    server = int(await parent.stdout.readline())
    await _until((tmp_path / "ready").exists)
    parent.kill()
    await parent.wait()
    await _until(lambda: not _is_running(server))
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_backoff_grows_to_its_limit() -> None:
    supervision = Supervision(backoff_first_s=0.5, backoff_max_s=30)
    assert [supervision.backoff_s(failures) for failures in (0, 1, 2, 10)] == [0.5, 1.0, 2.0, 30.0]
