"""Keeps the bundled Triton server running: starts it, waits until it is ready, and restarts it when it dies.

The supervisor has the server's process, its address (the same after each restart), its log and a lock on the data
folder. After several starts in a row that failed, for example because a model does not load, its state is `failed`.

Triton does not notice when the stub process of a Python model dies: it goes on running, reports the model as ready, and
the model's requests hang. So the server is also restarted if one of its child processes is gone.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.process import ServerProcess, remove_shared_memory
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_local_triton.server_venv import read_layout
from antiphon_local_triton.triton import TritonCommand, TritonPorts, free_ports, is_ready, link_backends, triton_command

CommandFor = Callable[[TritonPorts], TritonCommand]
Probe = Callable[[str, Sequence[str]], Awaitable[bool]]
LOG_FILE, LOCK_FILE, BACKENDS = "triton.log", "triton.lock", "backends"
LOG_TAIL_BYTES = 16 * 1024
PROBE_TIMEOUT_S = 2.0


class TritonState(StrEnum):
    """The state of the server: stopped -> starting -> ready <-> restarting. `failed` and `stopped` are final."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Supervision:
    """The timeouts and the backoff of the supervisor, in seconds."""

    poll_s: float = 0.2
    start_timeout_s: float = 120.0
    """The timeout from the start of the process until it is ready. A large model on a slow disk takes long to load."""
    stop_grace_s: float = 8.0
    backoff_first_s: float = 0.5
    backoff_max_s: float = 30.0
    failed_starts_max: int = 3
    """After so many starts in a row that did not become ready, the state is `failed`."""

    def backoff_s(self, failed_starts: int) -> float:
        return float(min(self.backoff_max_s, self.backoff_first_s * 2**failed_starts))


class LocalTriton:
    """One supervised Triton server on loopback ports. All methods belong to one running event loop.

    `report` is called with a one-line message each time the server ends or cannot be started. `prepare` is called once,
    before the first start and under the lock: it writes the files that no other process may change meanwhile.
    """

    def __init__(
        self,
        command_for: CommandFor,
        *,
        data_dir: Path,
        models: Sequence[str] = (MODEL_NAME,),
        probe: Probe | None = None,
        supervision: Supervision | None = None,
        report: Callable[[str], None] = lambda _: None,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        self._command_for = command_for
        self._prepare = prepare
        self._data_dir = data_dir
        self._models = tuple(models)
        self._probe = probe if probe is not None else _probe
        self._supervision = supervision or Supervision()
        self._report = report
        self._ports: TritonPorts | None = None
        self._lock: IO[str] | None = None
        self._process: ServerProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._state, self._reason = TritonState.STOPPED, "not started"
        self._changed = asyncio.Condition()

    @classmethod
    def of_environment(
        cls,
        venv: Path,
        repository: Path,
        *,
        data_dir: Path,
        models: Sequence[str] = (MODEL_NAME,),
        supervision: Supervision | None = None,
        report: Callable[[str], None] = lambda _: None,
        prepare: Callable[[], object] = lambda: None,
    ) -> "LocalTriton":
        """The server of an environment made by `ensure_server_venv`. Raises LocalModelError if that is not complete.

        The log, a lock and a few links are written to `data_dir`. The server is ready when all of `models` are.
        """
        layout = read_layout(venv)

        def command_for(ports: TritonPorts) -> TritonCommand:
            return triton_command(
                layout,
                repository=repository,
                backends=link_backends(layout, data_dir / BACKENDS),
                ports=ports,
                shm_prefix=shared_memory_prefix(data_dir),
                environment=os.environ,
            )

        return cls(
            command_for, data_dir=data_dir, models=models, supervision=supervision, report=report, prepare=prepare
        )

    @property
    def grpc_address(self) -> str:
        """HOST:PORT, which restarts do not change. RuntimeError: `start` was not called yet."""
        if self._ports is None:
            raise RuntimeError("the server has no address before start()")
        return self._ports.grpc_address

    @property
    def state(self) -> TritonState:
        return self._state

    @property
    def reason(self) -> str:
        """The reason for the current state, as text for the user."""
        return self._reason

    @property
    def log_path(self) -> Path:
        return self._data_dir / LOG_FILE

    @property
    def pid(self) -> int | None:
        """The process id of the server; None if it does not run."""
        process = self._process
        return None if process is None or process.exit_code is not None else process.pid

    async def start(self) -> None:
        """Starts the server and its supervision, and returns at once. Raises LocalModelError if the data folder is in
        use, and what `prepare` raises."""
        if self._task is not None:
            raise RuntimeError("start() was called before")
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._data_dir / LOCK_FILE)
        await asyncio.to_thread(self._prepare)
        self._ports = free_ports()
        await self._become(TritonState.STARTING, "starting the Triton server")
        self._task = asyncio.create_task(self._supervise(self._ports), name="triton-supervisor")

    async def wait_ready(self, timeout_s: float) -> None:
        """Waits until the server is ready. Raises LocalModelError, with the reason, if it has failed or is not ready in
        time."""
        ends = (TritonState.READY, TritonState.FAILED, TritonState.STOPPED)
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self._state in ends)
        except TimeoutError:
            raise LocalModelError(
                f"The Triton server is not ready after {timeout_s:g} s: {self._reason}. Its log: {self.log_path}"
            ) from None
        if self._state is not TritonState.READY:
            raise LocalModelError(f"The Triton server does not run: {self._reason}. Its log: {self.log_path}")

    async def stop(self) -> None:
        """Ends the supervision, the server and its children, and removes their shared memory. Can be called again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._stop_process(grace_s=self._supervision.stop_grace_s)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        await self._become(TritonState.STOPPED, "stopped")

    async def _supervise(self, ports: TritonPorts) -> None:
        failed_starts = 0
        while True:
            reached_ready, ending = await self._run_once(ports)
            failed_starts = 0 if reached_ready else failed_starts + 1
            self._report(f"triton: {ending}")
            if failed_starts >= self._supervision.failed_starts_max:
                await self._become(TritonState.FAILED, ending)
                return
            await self._become(TritonState.RESTARTING, ending)
            await asyncio.sleep(self._supervision.backoff_s(failed_starts))

    async def _run_once(self, ports: TritonPorts) -> tuple[bool, str]:
        """Runs the server until it ends or has to be restarted. Returns whether it became ready, and why it ended."""
        reached_ready = False
        remove_shared_memory(shared_memory_prefix(self._data_dir))
        try:
            self._process = process = await ServerProcess.start(self._command_for(ports), self.log_path)
        except OSError as error:
            return False, f"the Triton server cannot be started: {error}"
        ending = await self._until_ready(process)
        if ending is None:
            reached_ready = True
            ending = await self._serve(process)
        await self._stop_process(grace_s=0)  # its requests hang, and fail as soon as it is killed
        return reached_ready, ending

    async def _until_ready(self, process: ServerProcess) -> str | None:
        """Waits until the server is ready and returns None, or returns the reason why it is not."""
        deadline_s = time.monotonic() + self._supervision.start_timeout_s
        while not await process.wait(self._supervision.poll_s):
            if await self._probe(self.grpc_address, self._models):
                return None
            if time.monotonic() > deadline_s:
                return f"the Triton server was not ready within {self._supervision.start_timeout_s:g} s"
        return self._end_reason(process)

    async def _serve(self, process: ServerProcess) -> str:
        """Is ready until the server or one of its stubs ends, and returns which ended and why."""
        server_ended = asyncio.create_task(process.wait())
        stub_ended = process.child_ended()
        endings: list[asyncio.Future[Any]] = [server_ended, stub_ended]
        try:
            await self._become(TritonState.READY, f"serving on {self.grpc_address}")
            await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            # A server that ends loses its stubs, too.
            if stub_ended.done() and not await process.wait(self._supervision.poll_s):
                return f"a stub process of the Triton server died (pid {stub_ended.result()})"
            return self._end_reason(process)
        finally:
            for each in endings:
                each.cancel()

    def _end_reason(self, process: ServerProcess) -> str:
        code = process.exit_code or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        error = _logged_error(self.log_path, process.log_start_bytes)
        return f"the Triton server {how}" + (f" ({error})" if error else "")

    async def _stop_process(self, *, grace_s: float) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.stop(grace_s)
            remove_shared_memory(shared_memory_prefix(self._data_dir))

    async def _become(self, state: TritonState, reason: str) -> None:
        async with self._changed:
            self._state, self._reason = state, reason
            self._changed.notify_all()


def shared_memory_prefix(data_dir: Path) -> str:
    """The prefix of the names of the shared-memory regions of a server with this data folder."""
    return f"antiphon-{hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]}-"


async def _probe(address: str, models: Sequence[str]) -> bool:
    return await is_ready(address, models, timeout_s=PROBE_TIMEOUT_S)


def _lock(path: Path) -> IO[str]:
    """Locks the data folder until the returned file is closed, which the end of this process does at the latest."""
    with contextlib.ExitStack() as cleanup:
        lock = cleanup.enter_context(path.open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalModelError(
                f"Another antiphon already runs a Triton server with the data folder {path.parent}. Stop it, or choose "
                "another data folder."
            ) from None
        cleanup.pop_all()
        return lock


def _logged_error(log_path: Path, start_bytes: int) -> str:
    """The last error in the log, from `start_bytes` on, about a model that was not loaded or a server that was not
    started. An error of a model goes before the server's own error that follows it."""
    try:
        with log_path.open("rb") as log:
            log.seek(max(start_bytes, log_path.stat().st_size - LOG_TAIL_BYTES))
            tail = log.read().decode("utf-8", "replace")
    except OSError:
        return ""
    found = re.findall(r"failed to load '[^']*' version \d+: .*?(?=\\n|\"$|$)|^error: .*", tail, re.MULTILINE)
    return found[-2] if len(found) > 1 and found[-1].startswith("error: ") else "".join(found[-1:])
