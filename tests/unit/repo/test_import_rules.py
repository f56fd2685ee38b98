"""The permitted imports between packages: protos, http2 <- core <- services <- antiphon, and no I/O in pure modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.cases import in_one_test

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "antiphon_protos": ROOT / "protos/python/antiphon_protos",
    "antiphon_http2": ROOT / "libs/antiphon_http2",
    "antiphon_core": ROOT / "libs/antiphon_core",
    "antiphon_store": ROOT / "services/store/antiphon_store",
    "antiphon_translator": ROOT / "services/translator/antiphon_translator",
    "antiphon_tools": ROOT / "services/tools/antiphon_tools",
    "antiphon_edge": ROOT / "services/edge/antiphon_edge",
    "antiphon": ROOT / "services/allinone/antiphon",
    "antiphon_local_triton": ROOT / "services/allinone/antiphon_local_triton",
    "antiphon_tokens": ROOT / "triton_models/antiphon_tokens",
    "antiphon_lmdb": ROOT / "examples/lmdb_store/antiphon_lmdb",
    "antiphon_store_client": ROOT / "clients/python/antiphon_store_client",
}
ALLOWED = {
    "antiphon_protos": set[str](),
    "antiphon_http2": set[str](),
    "antiphon_core": {"antiphon_protos", "antiphon_http2"},
    "antiphon_store": {"antiphon_protos", "antiphon_core"},
    "antiphon_translator": {"antiphon_protos", "antiphon_core", "antiphon_http2"},
    "antiphon_tools": {"antiphon_protos", "antiphon_core"},
    "antiphon_edge": {"antiphon_core"},
    "antiphon": set(PACKAGES) - {"antiphon_lmdb", "antiphon_store_client"},
    "antiphon_local_triton": {"antiphon_core", "antiphon_tokens"},
    "antiphon_tokens": set[str](),  # runs in Triton's Python, without Antiphon
    "antiphon_store_client": set[str](),  # can be installed without Antiphon
    "antiphon_lmdb": {"antiphon_core", "antiphon_store"},  # an example, which the product does not import
}
HTTP2 = PACKAGES["antiphon_http2"]
HTTP2_RIM = {
    "balancing.py",
    "call.py",
    "client.py",
    "health_watch.py",
    "link.py",
    "read_turns.py",
    "server.py",
    "socket_link.py",
    "unary.py",
}
TRANSLATOR = PACKAGES["antiphon_translator"]
TOOLS = PACKAGES["antiphon_tools"]
# Pure modules: no sockets, no event loop, no clock of their own.
SANS_IO = [
    "antiphon_core/egress/addresses.py",
    "antiphon_core/egress/urls.py",
    "antiphon_core/events.py",
    "antiphon_core/fold.py",
    *(
        f"antiphon_http2/{path.relative_to(HTTP2)}"
        for path in sorted(HTTP2.rglob("*.py"))
        if path.name not in HTTP2_RIM
    ),
    "antiphon_core/items.py",
    "antiphon_core/jsons.py",
    *(f"antiphon_core/request/{path.name}" for path in sorted((PACKAGES["antiphon_core"] / "request").glob("*.py"))),
    "antiphon_core/response.py",
    *(
        f"antiphon_edge/chat/{name}.py"
        for name in ("chunks", "completions", "error_translator", "messages", "requests")
    ),
    "antiphon_edge/http/allowance.py",
    "antiphon_edge/http/socket_frames.py",
    "antiphon_translator/schemas/answer_check.py",
    "antiphon_translator/conversation.py",
    "antiphon_translator/generation.py",
    "antiphon_translator/output/item_kinds.py",
    "antiphon_translator/output/machine.py",
    "antiphon_translator/pipeline.py",
    "antiphon_translator/prompt/prompt.py",
    "antiphon_translator/turn/sampling.py",
    "antiphon_translator/schemas/schema_outline.py",
    "antiphon_translator/schemas/schemas.py",
    "antiphon_translator/schemas/strict_schemas.py",
    "antiphon_translator/schemas/structured.py",
    "antiphon_translator/templates/content_form.py",
    "antiphon_translator/templates/control_tokens.py",
    "antiphon_translator/templates/jinja.py",
    "antiphon_translator/tokenizer/tokens.py",
    "antiphon_translator/templates/image_mark.py",
    "antiphon_translator/schemas/tool_schemas.py",
    *(f"antiphon_translator/{path.relative_to(TRANSLATOR)}" for path in sorted((TRANSLATOR / "parsing").rglob("*.py"))),
    *(
        f"antiphon_translator/media/{path.name}"
        for path in sorted((TRANSLATOR / "media").glob("*.py"))
        if path.name != "fetching.py"
    ),
    "antiphon_tools/web/providers.py",
    *(f"antiphon_tools/mcp/{path.name}" for path in sorted((TOOLS / "mcp").glob("*.py")) if path.name != "client.py"),
]
# Modules of the vocabulary that one package alone uses, each with the reason.
OF_ONE_PACKAGE = {
    "antiphon_core.fold": "defines what a response is, for all who write or read its events",
    "antiphon_core.telemetry.reference_page": "a command of `make docs`",
}
IO_MODULES = {"asyncio", "socket", "time", "random", "secrets", "aiohttp", "grpc", "threading", "subprocess"}


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Returns the full names of all modules that a file imports."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def modules_of(package: str) -> list[Path]:
    return list(PACKAGES[package].rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_allowed_packages(package: str) -> None:
    for path in modules_of(package):
        roots = {name.split(".")[0] for name in imported(path)} & set(PACKAGES)
        assert roots <= ALLOWED[package] | {package}, f"{path.relative_to(ROOT)} imports {roots}"


@in_one_test("module", SANS_IO)
def test_pure_modules_import_no_io(module: str) -> None:
    package, _, rest = module.partition("/")
    roots = {name.split(".")[0] for name in imported(PACKAGES[package] / rest)}
    assert not roots & IO_MODULES


def test_generated_messages_never_reach_domain_code() -> None:
    allowed = {"wire.py", "server.py", "client.py", "message_types.py", "methods.py", "reflection.py"}
    for package in ("antiphon_core", "antiphon_store", "antiphon_translator", "antiphon_tools", "antiphon_edge"):
        for path in modules_of(package):
            if any(name.startswith("antiphon_protos") for name in imported(path)):
                assert path.name in allowed, path.relative_to(ROOT)


def test_only_local_model_imports_the_local_triton() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for package in set(PACKAGES) - {"antiphon_local_triton"}
        for path in modules_of(package)
        if any(name.split(".")[0] == "antiphon_local_triton" for name in imported(path))
    }
    assert importers == {"services/allinone/antiphon/local_model.py"}


def test_core_has_nothing_that_serves_one_package_alone() -> None:
    users: dict[str, set[str]] = {name: set() for name in _modules_of_core()}
    for package in PACKAGES:
        for path in modules_of(package):
            names = set(_imported_names(path)) & set(users)
            for name in names - {_dotted(path)}:
                users[name].add(package)
    alone = {name for name, packages in users.items() if packages != {"antiphon_core"} and len(packages) < 2}
    assert alone == set(OF_ONE_PACKAGE)


def _modules_of_core() -> list[str]:
    return [_dotted(path) for path in modules_of("antiphon_core") if path.name != "__init__.py"]


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "libs").with_suffix("").parts) if ROOT / "libs" in path.parents else ""


def _imported_names(path: Path) -> Iterator[str]:
    """Yields what a file imports, with the names that it imports from modules: `from a import b` yields `a` and
    `a.b`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - {"antiphon_protos"}))
def test_folders_of_a_package_have_no_import_cycle(package: str) -> None:
    assert _cycle(_arrows(package)) == []


def _arrows(package: str) -> dict[str, set[str]]:
    """Returns the imports of each folder of a package, and of each module beside the folders, from the others."""
    arrows: dict[str, set[str]] = {}
    for path in modules_of(package):
        room = path.relative_to(PACKAGES[package]).parts[0].removesuffix(".py")
        names = (name.split(".") for name in imported(path) if name.startswith(f"{package}."))
        arrows.setdefault(room, set()).update(parts[1] for parts in names if parts[1] != room)
    return arrows


def _cycle(arrows: dict[str, set[str]]) -> list[str]:
    """Returns the folders and modules that are left after repeatedly removing those without imports from the rest: the
    members of a cycle and their importers."""
    left = dict(arrows)
    while free := [room for room, targets in left.items() if not targets & set(left)]:
        for room in free:
            del left[room]
    return sorted(left)
