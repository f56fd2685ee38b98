"""The command that starts the bundled Triton server, and the check whether the server is ready.

The server is the binary in the nvidia-pytriton package; pytriton's own Python code is not used. Experiments showed that
the stub process of the Python backend ignores PYTHONPATH. It finds its packages through the `python3` that is first on
PATH, and libpython through LD_LIBRARY_PATH.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from antiphon_local_triton.server_venv import VenvLayout

LOOPBACK = "127.0.0.1"
EXIT_TIMEOUT_S = 3
"""How long a server that stops waits for its running requests."""
_HIDDEN_FROM_SERVER = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "LD_PRELOAD")


@dataclass(frozen=True, slots=True)
class TritonPorts:
    """The loopback ports of one server."""

    grpc: int
    http: int
    metrics: int

    @property
    def grpc_address(self) -> str:
        return f"{LOOPBACK}:{self.grpc}"


@dataclass(frozen=True, slots=True)
class TritonCommand:
    """The arguments and the environment of a server process."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def triton_command(
    layout: VenvLayout,
    *,
    repository: Path,
    backends: Path,
    ports: TritonPorts,
    shm_prefix: str,
    environment: Mapping[str, str],
) -> TritonCommand:
    """The command for a server that serves `repository` on `ports`.

    `backends` is a folder that `link_backends` filled; `environment` is the caller's own. The names of the
    shared-memory regions of the server's stub processes begin with `shm_prefix`.
    """
    server = layout.site_packages / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    argv = (
        str(server),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        "--disable-auto-complete-config",
        f"--backend-config=python,shm-region-prefix-name={shm_prefix}",
        f"--grpc-address={LOOPBACK}",
        f"--grpc-port={ports.grpc}",
        f"--http-address={LOOPBACK}",
        f"--http-port={ports.http}",
        f"--metrics-address={LOOPBACK}",
        f"--metrics-port={ports.metrics}",
        f"--exit-timeout-secs={EXIT_TIMEOUT_S}",
        "--allow-gpu-metrics=false",
        "--pinned-memory-pool-byte-size=0",
    )
    kept = {name: value for name, value in environment.items() if name not in _HIDDEN_FROM_SERVER}
    search_path = f"{layout.venv / 'bin'}{os.pathsep}{kept.get('PATH', os.defpath)}"
    added = {"PATH": search_path, "LD_LIBRARY_PATH": str(layout.library_dir), "PYTHONUTF8": "1"}
    return TritonCommand(argv, {**kept, **added})


def link_backends(layout: VenvLayout, folder: Path) -> Path:
    """Links the Python backend and the stub for the environment's Python version into `folder`, and returns it."""
    triton = layout.site_packages / "pytriton" / "tritonserver"
    backend = folder / "python"
    backend.mkdir(parents=True, exist_ok=True)
    targets = (
        triton / "backends" / "python" / "libtriton_python.so",
        triton / "backends" / "python" / "triton_python_backend_utils.py",
        triton / "python_backend_stubs" / layout.python_version / "triton_python_backend_stub",
    )
    for target in targets:
        link = backend / target.name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return folder


def free_ports() -> TritonPorts:
    """Three loopback ports that are free now. Another process may take them before the server does."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        numbers = [int(each.getsockname()[1]) for each in sockets]
    return TritonPorts(grpc=numbers[0], http=numbers[1], metrics=numbers[2])


async def is_ready(address: str, models: Sequence[str], *, timeout_s: float) -> bool:
    """Whether the server at `address` and all `models` are ready. False also if a request fails."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        try:
            server = await stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=timeout_s)
            if not server.ready:
                return False
            for name in models:
                model = await stub.ModelReady(service_pb2.ModelReadyRequest(name=name), timeout=timeout_s)
                if not model.ready:
                    return False
        except grpc.aio.AioRpcError:
            return False
    return True
