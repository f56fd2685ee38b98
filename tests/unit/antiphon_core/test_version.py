from __future__ import annotations

import re
from pathlib import Path

from antiphon_core.version import VERSION

ROOT = Path(__file__).parents[3]
# The tag of an image, and the members of charts and packages.
_NAMED = re.compile(
    r"""(?:newTag|tag|version|appVersion|"version"): "?(\d+\.\d+\.\d+)"""
    r"""|VERSION=(\d\S+)|antiphon-\S+:(\d\S+)"""
)


def versioned() -> list[str]:
    """The files that `make version` changes."""
    (line,) = re.findall(r"^VERSIONED := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    patterns = re.sub(r"\$\(wildcard ([^)]*)\)", r"\1", line).split()
    return [path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)]


def test_every_file_names_the_one_version() -> None:
    for name in versioned():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert {next(filter(None, found)) for found in _NAMED.findall(text)} <= {VERSION}, name


def test_make_version_changes_every_file_that_names_it() -> None:
    naming = re.compile(rf"(?:version|tag)\W+{re.escape(VERSION)}\b", re.IGNORECASE)
    named = [
        path.relative_to(ROOT).as_posix()
        for folder in ("clients", "containers", "k8s", "libs", "services")
        for suffix in ("py", "yaml", "json", "toml")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
        if "node_modules" not in path.parts and naming.search(path.read_text(encoding="utf-8"))
    ]
    assert set(named) <= set(versioned())
