"""Fails a unit test that starts a process, listens on a socket or waits longer than 0.2 s in real time.

Such a test belongs to tests/service. The exceptions stand in EXEMPT, with their reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.unit_guard import Effect, installed_guard

HERE = Path(__file__).parent
HTTP = "client and server share the event loop of the test, on loopback"
GRPC = "client and server are in the process of the test, on loopback"
CHILD = "the process is the subject"
# folder or file -> (the effects that its tests may have, why)
EXEMPT: dict[str, tuple[set[Effect], str]] = {
    "antiphon_local_triton/test_interpreter.py": ({"process"}, CHILD),
    "antiphon_core/test_orphan_guard.py": ({"process"}, CHILD),
    "antiphon_local_triton/test_process.py": ({"process"}, CHILD),
    "antiphon_local_triton/test_supervisor.py": ({"process", "listen", "wait"}, CHILD),
    "antiphon_local_triton/test_triton.py": ({"listen"}, "it looks for free ports"),
    "antiphon/parts/test_telemetry.py": ({"listen"}, HTTP),
    "antiphon/parts/test_store.py": ({"listen"}, GRPC),
    "antiphon/test_banner.py": ({"listen"}, GRPC),
    "antiphon/test_cli.py": ({"process", "listen"}, CHILD),
    "antiphon/test_keys_command.py": ({"listen"}, HTTP),
    "antiphon/test_serve_command.py": ({"listen"}, GRPC),
    "antiphon/test_targets.py": ({"process", "listen"}, CHILD),
    "antiphon_core/rpc": ({"listen"}, GRPC),
    "antiphon_core/rpc/test_lean_streams.py": ({"wait"}, "gRPC's server does not answer the goodbye of TLS"),
    "antiphon_core/telemetry/test_otlp_tracer.py": ({"listen"}, "urllib3 tries IPv6 when it is imported"),
    "antiphon_core/telemetry/test_otlp.py": ({"process"}, "what a fresh interpreter imports is the subject"),
    "antiphon_edge": ({"listen"}, HTTP),
    "antiphon_edge/routes/test_sse.py": ({"wait"}, "the system's own buffers fill only while a client does not read"),
    "antiphon_store_client/test_async_client.py": ({"listen"}, GRPC),
    "antiphon_store_client/test_client.py": ({"listen"}, GRPC),
    "antiphon_store/test_append_queue.py": ({"listen"}, GRPC),
    "antiphon_store/test_client.py": ({"listen"}, GRPC),
    "antiphon_translator/engines": ({"listen"}, "a scripted model server on loopback, in the process of the test"),
    "antiphon_translator/engines/test_endpoint_answers.py": ({"wait"}, "the time limit is the subject"),
    "antiphon_translator/engines/test_openai_chat.py": ({"wait"}, "the time limit is the subject"),
    "antiphon_translator/engines/test_triton_stream.py": ({"wait"}, "the time limit is the subject"),
    "antiphon_translator/media/test_fetching.py": ({"listen"}, HTTP),
    "antiphon_translator/test_client.py": ({"listen"}, GRPC),
    "antiphon_translator/schemas/test_schemas.py": ({"listen"}, "a web server that must not be asked"),
    "antiphon_translator/test_service.py": ({"listen"}, HTTP),
}

guard = installed_guard()


def exempt_effects(path: Path) -> set[Effect]:
    """The effects that the tests of a file may have."""
    name = path.relative_to(HERE).as_posix()
    return {
        effect for place, (effects, _) in EXEMPT.items() if f"{name}/".startswith(f"{place}/") for effect in effects
    }


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    guard.effects.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Runs after the test and its fixtures, whose effects count as well."""
    yield
    allowed = exempt_effects(item.path)
    if found := [f"{effect}: {detail}" for effect, detail in guard.effects if effect not in allowed]:
        pytest.fail(
            "\n".join(["a unit test starts no process, does not listen and does not wait:", *found]), pytrace=False
        )
