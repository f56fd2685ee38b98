"""Composes the Lua scripts of their files. A script or a part that is missing fails at import.

A script begins with its `#!lua` line and a comment that names the parts that it needs. The parts come before its own
text, each after the parts that it needs itself, and each once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha1
from importlib.resources import files
from typing import Any

Argument = str | bytes | int

_FOLDER = files("antiphon_store.backends.redis") / "lua"
_NEEDS = re.compile(r"^-- needs:(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """One atom. `lasts`: it writes data that replicas must have, too, before its answer counts."""

    name: str
    text: str
    lasts: bool

    @cached_property
    def sha(self) -> str:
        """The SHA by which a server calls a script that it has seen."""
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script, with the number of its keys, the keys and the arguments."""

    script: Script
    arguments: tuple[Any, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of its long arguments; texts are short."""
        return sum(len(each) for each in self.arguments if isinstance(each, bytes))


def compose(name: str) -> Script:
    """The script `lua/<name>.lua` with its parts before it."""
    shebang, _, body = (_FOLDER / f"{name}.lua").read_text(encoding="utf-8").partition("\n")
    needs = _NEEDS.search(body)
    if needs is None or not shebang.startswith("#!lua"):
        raise ValueError(f"{name}.lua must begin with '#!lua' and say what it needs.")
    parts = dict(_parts(body))
    text = "\n".join([shebang, *parts.values(), body])
    return Script(name, text, lasts="no-writes" not in shebang)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The parts that a text needs, by name: those that they need come before them."""
    needs = _NEEDS.search(text)
    for name in needs.group(1).split() if needs else ():
        part = (_FOLDER / "parts" / f"{name}.lua").read_text(encoding="utf-8")
        yield from _parts(part)
        yield name, part


def with_flags(script: Script, flags: str) -> Script:
    """The script with flags for the server: `no-writes` lets a server run it that accepts no writes, `allow-oom` one
    whose memory is full."""
    text = script.text.replace("#!lua", f"#!lua flags={flags}", 1)
    return replace(script, text=text, lasts=script.lasts and flags != "no-writes")


TRANSACT = compose("transact")
TRANSACT_VOLATILE = replace(TRANSACT, lasts=False)
TRANSACT_READING = with_flags(TRANSACT, "no-writes")
TRANSACT_SMALL = with_flags(TRANSACT, "allow-oom")  # so that turns can end and responses can be deleted then
PAGE = compose("page")
SUBTREE = compose("subtree")
TAKE_DUE = compose("take_due")
ENTRIES = compose("entries")
NAMES = compose("names")
ANNOUNCE = compose("announce")
READY = compose("ready")
