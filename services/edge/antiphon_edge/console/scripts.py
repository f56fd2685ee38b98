"""A bundler: joins the ES modules of the console into one script for the browser.

The sources are some seventy small ES modules with types in their comments. Sent separately they would be as many
requests and, compressed separately, twice the bytes. So when the files are read, comments are removed, and each module
becomes a function that returns its exports, in the order of the imports. There is no build step, and names and lines
stay as they are in the source. Libraries stay separate modules, byte for byte as npm has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import dirname, join, normpath

Read = Callable[[str], str]
"""Reads the text of the module at a path."""

_COMMENT = re.compile(
    r"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*\n|/\*\* @type .*?\*/ ?|^[ \t]*// .*?\n", re.DOTALL | re.MULTILINE
)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_IMPORT = re.compile(r'^import (?:(?P<name>\w+|\* as \w+|\{[^}]*\}) from )?"(?P<path>[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*? ?|class |const )(?P<name>\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)[ {*(].*", re.MULTILINE)


def link(entry: str, read: Read) -> str:
    """The script that runs the module `entry`. ValueError: modules import each other in a cycle, or a module has an
    import or export of an unsupported form."""
    linker = _Linker(read)
    linker.add(entry, ())
    libraries = (f'import * as {name} from "{path}";\n' for path, name in linker.libraries.items())
    return "".join(libraries) + "const $ = {};\n" + "".join(linker.modules.values())


class _Linker:
    """Collects the modules, each after its imports, and the libraries that they need."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.modules: dict[str, str] = {}
        self.libraries: dict[str, str] = {}

    def add(self, path: str, above: tuple[str, ...]) -> None:
        if path in above:
            raise ValueError(f"modules import each other: {' -> '.join((*above, path))}")
        if path in self.modules:
            return
        text = _INDENT.sub("", _COMMENT.sub("", self._read(path)))
        body = _IMPORT.sub(lambda found: self._bind_import(found, path, (*above, path)), text)
        names = [found["name"] for found in _EXPORT.finditer(body)]
        body = _EXPORT.sub("", body)
        if left := _LEFT.search(body):
            raise ValueError(f"{path} has an import or export of an unsupported form: {left[0]}")
        self.modules[path] = f'$["{path}"] = (() => {{\n{body}return {{ {", ".join(names)} }};\n}})();\n'

    def _bind_import(self, found: re.Match[str], path: str, above: tuple[str, ...]) -> str:
        """Replaces an import by a statement that binds its names to the exports of the other module."""
        source, name = found["path"], found["name"]
        if source.startswith("."):
            source = normpath(join(dirname(path), source))
            self.add(source, above)
            module = f'$["{source}"]'
        else:
            module = self.libraries.setdefault(source, f"$library{len(self.libraries)}")
        if not name:
            return ""
        if name.startswith("* as "):
            return f"const {name[5:]} = {module};\n"
        if name.startswith("{"):
            return f"const {name.replace(' as ', ': ')} = {module};\n"
        return f"const {name} = {module}.default;\n"
