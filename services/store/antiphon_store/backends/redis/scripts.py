"""Composes the Lua scripts of their files. A file that is missing fails at import."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha1
from importlib.resources import files
from typing import Any

Argument = str | bytes | int

_FOLDER = files("antiphon_store.backends.redis") / "lua"


@dataclass(frozen=True)
class Script:
    """One atom. `is_durable`: it writes data that replicas must have, too, before its answer counts."""

    name: str
    text: str
    is_durable: bool

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


def compose(name: str, *parts: str) -> Script:
    """The script `lua/<name>.lua`: its `#!lua` line, then `lua/parts/<part>.lua` of each part, then its own text."""
    shebang, _, body = _read(f"{name}.lua").partition("\n")
    text = "\n".join([shebang, *[_read(f"parts/{part}.lua") for part in parts], body])
    return Script(name, text, is_durable="no-writes" not in shebang)


def _read(path: str) -> str:
    return (_FOLDER / path).read_text(encoding="utf-8")


def with_flags(script: Script, flags: str) -> Script:
    """The script with flags for the server: `no-writes` lets a server run it that accepts no writes, `allow-oom` one
    whose memory is full."""
    text = script.text.replace("#!lua", f"#!lua flags={flags}", 1)
    return replace(script, text=text, is_durable=script.is_durable and flags != "no-writes")


TRANSACT = compose("transact", "clock", "rows", "entries", "chains", "node_lists")
TRANSACT_VOLATILE = replace(TRANSACT, is_durable=False)
TRANSACT_READING = with_flags(TRANSACT, "no-writes")
TRANSACT_SMALL = with_flags(TRANSACT, "allow-oom")  # so that turns can end and responses can be deleted then
PAGE = compose("page", "clock", "rows")
SUBTREE = compose("subtree", "clock", "rows")
CHILDREN = compose("children", "clock", "rows")
ANCESTORS = compose("ancestors", "clock", "rows")
LIST_NODES = replace(compose("list_nodes", "clock", "rows", "node_lists"), is_durable=False)  # can be made again
TAKE_DUE = compose("take_due", "clock")
ENTRIES = compose("entries", "clock", "entries")
ANNOUNCE = compose("announce")
READY = compose("ready")
