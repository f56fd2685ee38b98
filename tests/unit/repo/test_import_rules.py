"""The arrows between packages: protos <- core <- services <- antiphon, and no sockets in the middle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "antiphon_protos": ROOT / "protos/python/antiphon_protos",
    "antiphon_core": ROOT / "libs/antiphon_core",
    "antiphon_store": ROOT / "services/store/antiphon_store",
    "antiphon_translator": ROOT / "services/translator/antiphon_translator",
    "antiphon_edge": ROOT / "services/edge/antiphon_edge",
    "antiphon": ROOT / "services/allinone/antiphon",
    "antiphon_lmdb": ROOT / "examples/lmdb_store/antiphon_lmdb",
    "antiphon_store_client": ROOT / "clients/python/antiphon_store_client",
}
ALLOWED = {
    "antiphon_protos": set[str](),
    "antiphon_core": {"antiphon_protos"},
    "antiphon_store": {"antiphon_protos", "antiphon_core"},
    "antiphon_translator": {"antiphon_protos", "antiphon_core"},
    "antiphon_edge": {"antiphon_core"},
    "antiphon": set(PACKAGES) - {"antiphon_lmdb", "antiphon_store_client"},
    "antiphon_store_client": set[str](),  # installed without Antiphon
    "antiphon_lmdb": {"antiphon_core", "antiphon_store"},  # an example: the product knows nothing of it
}
TRANSLATOR = PACKAGES["antiphon_translator"]
# Modules that decide things: no sockets, no event loop, no clock of their own.
SANS_IO = [
    "antiphon_core/events.py",
    "antiphon_core/fold.py",
    *(
        f"antiphon_core/http2/{path.name}"
        for path in sorted((PACKAGES["antiphon_core"] / "http2").glob("*.py"))
        if path.name not in ("balancing.py", "client.py", "link.py")
    ),
    "antiphon_core/items.py",
    "antiphon_core/jsons.py",
    *(f"antiphon_core/{path.name}" for path in sorted(PACKAGES["antiphon_core"].glob("request*.py"))),
    "antiphon_core/response.py",
    *(f"antiphon_edge/chat/{name}.py" for name in ("chunks", "completions", "culprits", "messages", "requests")),
    "antiphon_edge/door/masking.py",
    "antiphon_translator/answer_check.py",
    "antiphon_translator/conversation.py",
    "antiphon_translator/generation.py",
    "antiphon_translator/item_kinds.py",
    "antiphon_translator/machine.py",
    "antiphon_translator/pipeline.py",
    "antiphon_translator/prompt.py",
    "antiphon_translator/sampling.py",
    "antiphon_translator/schema_outline.py",
    "antiphon_translator/schemas.py",
    "antiphon_translator/strict_schemas.py",
    "antiphon_translator/structured.py",
    "antiphon_translator/templates/content_format.py",
    "antiphon_translator/templates/control_tokens.py",
    "antiphon_translator/templates/jinja.py",
    "antiphon_translator/tokens.py",
    "antiphon_translator/templates/image_mark.py",
    "antiphon_translator/tool_schemas.py",
    *(f"antiphon_translator/{path.relative_to(TRANSLATOR)}" for path in sorted((TRANSLATOR / "parsing").rglob("*.py"))),
    *(
        f"antiphon_translator/media/{path.name}"
        for path in sorted((TRANSLATOR / "media").glob("*.py"))
        if path.name not in ("fetching.py", "resolver.py")
    ),
]
IO_MODULES = {"asyncio", "socket", "time", "random", "secrets", "aiohttp", "grpc", "threading", "subprocess"}

# Folders of the edge that still import each other. A pair that does no longer must be taken out.
EDGE_CYCLES = {
    ("door", "routes"),
    ("sealed", "turns"),
}


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The full names of all modules that a file imports."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def modules_of(package: str) -> list[Path]:
    return [path for path in PACKAGES[package].rglob("*.py") if "model_repository" not in path.parts]


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_the_arrows_allow(package: str) -> None:
    for path in modules_of(package):
        roots = {name.split(".")[0] for name in imported(path)} & set(PACKAGES)
        assert roots <= ALLOWED[package] | {package}, f"{path.relative_to(ROOT)} imports {roots}"


@pytest.mark.parametrize("module", SANS_IO)
def test_modules_that_decide_do_no_io(module: str) -> None:
    package, _, rest = module.partition("/")
    roots = {name.split(".")[0] for name in imported(PACKAGES[package] / rest)}
    assert not roots & IO_MODULES


def test_generated_messages_never_reach_domain_code() -> None:
    allowed = {"wire.py", "server.py", "client.py", "message_types.py", "methods.py", "reflection.py"}
    for package in ("antiphon_core", "antiphon_store", "antiphon_translator", "antiphon_edge"):
        for path in modules_of(package):
            if any(name.startswith("antiphon_protos") for name in imported(path)):
                assert path.name in allowed, path.relative_to(ROOT)


def test_no_two_folders_of_the_edge_import_each_other() -> None:
    arrows = set(_edge_arrows())
    assert {(one, other) for one, other in arrows if (other, one) in arrows and one < other} == EDGE_CYCLES


def _edge_arrows() -> Iterator[tuple[str, str]]:
    """The folders of the edge: one that imports, and one that it imports from."""
    edge = PACKAGES["antiphon_edge"]
    folders = {path.name for path in edge.iterdir() if path.is_dir()}
    for path in edge.glob("*/*.py"):
        for name in imported(path):
            package, _, folder = name.partition(".")
            folder = folder.partition(".")[0]
            if package == "antiphon_edge" and folder in folders - {path.parent.name}:
                yield path.parent.name, folder
