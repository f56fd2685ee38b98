"""No code of the product uses a private name of another package, except the few that have no public place."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from aiohttp import web

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "antiphon_http2": ROOT / "libs",
    "antiphon_core": ROOT / "libs",
    "antiphon_store": ROOT / "services/store",
    "antiphon_translator": ROOT / "services/translator",
    "antiphon_edge": ROOT / "services/edge",
    "antiphon": ROOT / "services/allinone",
}
MODULES = [
    path.relative_to(folder)
    for package, folder in PACKAGES.items()
    for path in sorted((folder / package).rglob("*.py"))
    if path.name != "__main__.py"
]
# Each with the reason in docs/adr/0178-private-names-of-aiohttp.md.
ALLOWED = {
    "BoundedConnector._factory",
    "_Connection._messages",
    "_Connection._request_count",
    "_Socket._close_transport",
    "_Socket._closing",
    "_Socket._exception",
    "_Socket._reader",
}
_PRIVATE = re.compile(r"\bself\.(_[a-z]\w*)")


@cache
def private_uses(module: Path) -> frozenset[str]:
    """Returns `Class._name` for the private names of foreign bases that the classes of a module use or override."""
    folder = PACKAGES[module.parts[0]]
    tree = ast.parse((folder / module).read_text(encoding="utf-8"))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.bases]
    if not classes or not _imports_others(tree):
        return frozenset()
    loaded = importlib.import_module(".".join(module.with_suffix("").parts).removesuffix(".__init__"))
    found = [(node, getattr(loaded, node.name, object)) for node in classes]
    return frozenset(f"{node.name}.{name}" for node, cls in found for name in _shared(node, cls))


def _imports_others(tree: ast.Module) -> bool:
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [getattr(node, "module", None) or node.names[0].name for node in imports]
    return any(_is_other(name) for name in names)


def _is_other(module: str) -> bool:
    root = module.partition(".")[0]
    return root not in PACKAGES and root not in sys.stdlib_module_names and root != "antiphon_protos"


def _shared(node: ast.ClassDef, loaded: type) -> set[str]:
    foreign = {name for base in loaded.__mro__[1:] if _is_other(base.__module__) for name in _private_names_of(base)}
    return foreign & set(_used(node))


def _private_names(base: type) -> set[str]:
    try:
        source = inspect.getsource(base)
    except (OSError, TypeError):  # it is compiled
        source = ""
    return {
        *(name for name in vars(base) if name.startswith("_") and not name.startswith("__")),
        *_PRIVATE.findall(source),
    }


def _used(node: ast.ClassDef) -> Iterator[str]:
    """Yields the private names of its own object that a class reads, sets or defines."""
    for child in ast.walk(node):
        match child:
            case ast.Attribute(value=ast.Name(id="self") | ast.Call(func=ast.Name(id="super")), attr=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name


@cache
def _private_names_of(base: type) -> frozenset[str]:
    return frozenset(_private_names(base))


def test_only_names_without_a_public_place_are_used() -> None:
    assert {name for module in MODULES for name in private_uses(module)} == ALLOWED


def test_a_use_of_a_private_name_is_found() -> None:
    class Site(web.BaseSite):
        name = "here"

        async def start(self) -> None:
            self._server = None

    tree = ast.parse(textwrap.dedent(inspect.getsource(Site)))
    assert _shared(next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)), Site) == {"_server"}
