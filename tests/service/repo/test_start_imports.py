"""The imports at the start of each command. A library costs up to half a second of processor time and 30 MB. Commands
that answer at once and declarations of settings import no library, and a target imports only the libraries of its own
extra."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = {
    "aiohttp",
    "asyncio",
    "betterproto2",
    "cryptography",
    "google.protobuf",
    "grpc",
    "jinja2",
    "minijinja",
    "pydantic",
    "tokenizers",
    "uvloop",
}
TRANSLATING = {"jinja2", "jsonschema_rs", "minijinja", "numpy", "tokenizers", "tritonclient", "gguf"}
UNASKED = {"opentelemetry", "prometheus_client", "structlog"}
"""Libraries that are imported only when metrics are read, traces are turned on, or logs are JSON."""
DATABASES = {"psycopg", "psycopg_pool", "redis", "hiredis"}
# betterproto2 imports pydantic wherever it is installed, so instead of pydantic, the models of requests are forbidden.
FOREIGN = {
    "store": TRANSLATING
    | DATABASES
    | {"aiohttp", "cryptography", "antiphon_edge.server", "antiphon_core.request.body"},
    "translator": DATABASES | {"aiohttp", "cryptography", "numpy", "antiphon_edge.server", "antiphon_store.service"},
    "tools": TRANSLATING | DATABASES | {"cryptography", "antiphon_edge.server", "antiphon_core.request.models"},
    "edge": TRANSLATING | DATABASES | {"antiphon_translator.service", "antiphon_store.service"},
    "worker": TRANSLATING | DATABASES | {"aiohttp", "antiphon_translator.service", "antiphon_store.service"},
}

RUN = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from antiphon.__main__ import main
sys.exit(main())
"""
IMPORT = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*sys.modules, file=sys.stderr)
"""
BUILD = """
import asyncio, sys
from antiphon import serve_command, settings
from antiphon.targets import Process, build

async def main():
    flags = {"--store-url": "memory://", "--edge-store": "h:1", "--edge-translator": "h:2"}
    flags |= {"--worker-store": "h:1", "--worker-translator": "h:2"}
    build([sys.argv[1]], Process(settings.load(environ={}, flags=flags, file=None)))

asyncio.run(main())
print(*sys.modules, file=sys.stderr)
"""
CREATE = """
import asyncio, sys
from pathlib import Path
from antiphon_translator.engines import registry
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.models.profiles import ModelProfile

async def main():
    profile = ModelProfile(name="m", directory=Path(), endpoint="h:1", engine=sys.argv[1])
    await registry.create(profile, TritonChannels()).close()

asyncio.run(main())
print(*sys.modules, file=sys.stderr)
"""


def loaded(program: str, *arguments: str) -> set[str]:
    """Runs a program and returns the modules that were imported at its end."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["keys", "create", "--help"]])
def test_a_command_that_answers_at_once_imports_no_library(arguments: list[str]) -> None:
    modules = loaded(RUN, *arguments)
    assert "antiphon.cli" in modules
    assert not HEAVY & modules


@pytest.mark.parametrize(
    "module",
    [
        "antiphon.settings",
        "antiphon_core.config",
        "antiphon.logs",
        "antiphon_core.rpc.settings",
        "antiphon_edge.access_settings",
        "antiphon_edge.settings",
        "antiphon_store.settings",
        "antiphon_translator.settings",
    ],
)
def test_declarations_of_settings_import_no_library(module: str) -> None:
    modules = loaded(IMPORT, module)
    assert module in modules
    assert not HEAVY & modules


@pytest.mark.parametrize("target", FOREIGN)
def test_a_target_imports_no_library_that_only_others_need(target: str) -> None:
    modules = loaded(BUILD, target)
    assert f"antiphon_{'edge' if target == 'worker' else target}" in modules
    assert not (FOREIGN[target] | UNASKED | {"antiphon.up"}) & modules


@pytest.mark.parametrize(
    ("engine", "needed", "foreign"),
    [
        ("triton_tokens", "tritonclient", {"aiohttp", "antiphon_translator.engines.triton_text"}),
        ("openai_chat", "aiohttp", {"tritonclient", "numpy"}),
    ],
)
def test_an_engine_imports_no_library_that_only_others_need(engine: str, needed: str, foreign: set[str]) -> None:
    modules = loaded(CREATE, engine)
    assert needed in modules
    assert not foreign & modules
