"""The Lua scripts, composed and named: Lua is data, and a script or a part that is not there fails at import.

A script begins with its `#!lua` line and a comment that says what it needs. The parts that it names come before its
own text, in the order in which they are named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files

_FOLDER = files("antiphon_store.backends.redis") / "lua"
_NEEDS = re.compile(r"^-- needs:(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One atom. `sha` is the name by which a server that has seen it knows it."""

    name: str
    text: str
    sha: str
    writes: bool


def compose(name: str) -> Script:
    """The script `lua/<name>.lua` with its parts before it."""
    shebang, _, body = (_FOLDER / f"{name}.lua").read_text(encoding="utf-8").partition("\n")
    needs = _NEEDS.search(body)
    if needs is None or not shebang.startswith("#!lua"):
        raise ValueError(f"{name}.lua must begin with '#!lua' and say what it needs.")
    parts = [(_FOLDER / "parts" / f"{part}.lua").read_text(encoding="utf-8") for part in needs.group(1).split()]
    text = "\n".join([shebang, *parts, body])
    sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, writes="no-writes" not in shebang)


PUT = compose("put")
FETCH = compose("fetch")
REMOVE = compose("remove")
ANCESTRY = compose("ancestry")
ACQUIRE_LEASE = compose("acquire_lease")
RENEW_LEASE = compose("renew_lease")
RELEASE_LEASE = compose("release_lease")
DESCRIBE_SESSION = compose("describe_session")
BEGIN_AFTER = compose("begin_after")
BEGIN_IN_SESSION = compose("begin_in_session")
COMMIT_TURN = compose("commit_turn")
CHANGE_STATUS = compose("change_status")
SUBTREE = compose("subtree")
CHILDREN = compose("children")
SIBLINGS = compose("siblings")
APPEND_EVENTS = compose("append_events")
READ_LOG = compose("read_log")
READY = compose("ready")
