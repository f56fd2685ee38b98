"""The vendored libraries of the console: copied from npm, each file with its hash, each package with its licence.

`make console-libraries` copies them again from node_modules, which npm has checked against package-lock.json, and
writes the list beside them. The versions are in package.json.
"""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / "node_modules"
VENDOR = ROOT / "services/edge/antiphon_edge/console/web/vendor"
LIST = VENDOR / "README.md"
FILES = {
    "preact.js": ("preact", "dist/preact.module.js"),
    "preact-hooks.js": ("preact", "hooks/dist/hooks.module.js"),
    "signals-core.js": ("@preact/signals-core", "dist/signals-core.module.js"),
    "signals.js": ("@preact/signals", "dist/signals.module.js"),
    "htm.js": ("htm", "dist/htm.module.js"),
}
LICENCES = {"preact": "preact", "signals-core": "@preact/signals-core", "signals": "@preact/signals", "htm": "htm"}
_HEAD = """# Libraries of the console

Files of npm packages, byte for byte. `make console-libraries` copies them and writes this list; a test compares them
with the packages that `package-lock.json` names.

| file | package | version | licence | SHA-256 |
|---|---|---|---|---|
"""


def copy() -> None:
    """Copies the files and the licences from the installed packages, and writes the list."""
    for name, (package, path) in FILES.items():
        shutil.copyfile(PACKAGES / package / path, VENDOR / name)
    for name, package in LICENCES.items():
        shutil.copyfile(PACKAGES / package / "LICENSE", VENDOR / f"LICENSE.{name}")
    LIST.write_text(listing(), "utf-8")


def listing() -> str:
    """Returns the list for the present files and the installed packages."""
    return _HEAD + "".join(_row(name, package) for name, (package, _) in FILES.items())


def _row(name: str, package: str) -> str:
    described = json.loads((PACKAGES / package / "package.json").read_text("utf-8"))
    digest = sha256((VENDOR / name).read_bytes()).hexdigest()
    return f"| `{name}` | {package} | {described['version']} | {described['license']} | `{digest}` |\n"


if __name__ == "__main__":
    copy()
