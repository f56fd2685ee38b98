from pathlib import Path

from antiphon_local_triton.server_venv import VenvLayout
from antiphon_local_triton.triton import TritonPorts, free_ports, is_ready, link_backends, triton_command

LAYOUT = VenvLayout(
    venv=Path("/cache/venv"),
    site_packages=Path("/cache/venv/lib/python3.11/site-packages"),
    library_dir=Path("/python/lib"),
    python_version="3.11",
)
PORTS = TritonPorts(grpc=1001, http=1002, metrics=1003)


def test_the_command_serves_loopback_only() -> None:
    command = triton_command(
        LAYOUT,
        repository=Path("/data/models"),
        backends=Path("/data/backends"),
        ports=PORTS,
        shm_prefix="antiphon-1-",
        environment={},
    )
    server, *flags = command.argv
    assert server == "/cache/venv/lib/python3.11/site-packages/pytriton/tritonserver/bin/tritonserver"
    assert "--model-repository=/data/models" in flags
    assert "--backend-directory=/data/backends" in flags
    assert "--backend-config=python,shm-region-prefix-name=antiphon-1-" in flags
    assert {flag for flag in flags if "address" in flag} == {
        f"--{kind}-address=127.0.0.1" for kind in ("grpc", "http", "metrics")
    }
    assert {flag for flag in flags if "-port=" in flag} == {
        "--grpc-port=1001",
        "--http-port=1002",
        "--metrics-port=1003",
    }
    assert PORTS.grpc_address == "127.0.0.1:1001"


def test_the_environment_of_the_server_leads_to_its_own_python() -> None:
    environment = triton_command(
        LAYOUT,
        repository=Path("/m"),
        backends=Path("/b"),
        ports=PORTS,
        shm_prefix="x",
        environment={"PATH": "/usr/bin", "PYTHONPATH": "/evil", "VIRTUAL_ENV": "/other", "LANG": "C"},
    ).environment
    assert environment == {
        "PATH": "/cache/venv/bin:/usr/bin",
        "LD_LIBRARY_PATH": "/python/lib",
        "PYTHONUTF8": "1",
        "LANG": "C",
    }


def test_repeated_linking_of_backends_replaces_the_links(tmp_path: Path) -> None:
    link_backends(LAYOUT, tmp_path / "backends")
    folder = link_backends(LAYOUT, tmp_path / "backends")
    links = {path.name: path.readlink() for path in (folder / "python").iterdir()}
    triton = LAYOUT.site_packages / "pytriton" / "tritonserver"
    assert links == {
        "libtriton_python.so": triton / "backends/python/libtriton_python.so",
        "triton_python_backend_utils.py": triton / "backends/python/triton_python_backend_utils.py",
        "triton_python_backend_stub": triton / "python_backend_stubs/3.11/triton_python_backend_stub",
    }


def test_free_ports_are_three_different_ones() -> None:
    ports = free_ports()
    assert len({ports.grpc, ports.http, ports.metrics}) == 3


async def test_a_port_without_a_server_is_not_ready() -> None:
    assert not await is_ready(free_ports().grpc_address, ["any"], timeout_s=1)
