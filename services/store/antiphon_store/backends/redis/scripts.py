"""The Lua scripts, composed and named: Lua is data, and a script or a part that is not there fails at import.

A script begins with its `#!lua` line and a comment that says what it needs. The parts that it names come before its
own text, each after those that it needs itself, and each once. A comment that begins with `Passing:` says of one that
writes that nothing of it has to be kept. One that begins with `Frequent:` says that many calls of it meet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files

_FOLDER = files("antiphon_store.backends.redis") / "lua"
_NEEDS = re.compile(r"^-- needs:(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One atom. `sha` is the name by which a server that has seen it knows it. `lasts`: it writes what is to be kept,
    on replicas too, and to be swept. `is_frequent`: calls of it that meet go out together; its answer is short."""

    name: str
    text: str
    sha: str
    lasts: bool
    is_frequent: bool


def compose(name: str) -> Script:
    """The script `lua/<name>.lua` with its parts before it."""
    shebang, _, body = (_FOLDER / f"{name}.lua").read_text(encoding="utf-8").partition("\n")
    needs = _NEEDS.search(body)
    if needs is None or not shebang.startswith("#!lua"):
        raise ValueError(f"{name}.lua must begin with '#!lua' and say what it needs.")
    parts = dict(_parts(body))
    text = "\n".join([shebang, *parts.values(), body])
    sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
    lasts = "no-writes" not in shebang and "-- Passing:" not in body
    return Script(name, text, sha, lasts=lasts, is_frequent="-- Frequent:" in body)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The parts that a text needs, by name: those that they need come before them."""
    needs = _NEEDS.search(text)
    for name in needs.group(1).split() if needs else ():
        part = (_FOLDER / "parts" / f"{name}.lua").read_text(encoding="utf-8")
        yield from _parts(part)
        yield name, part


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
BEGIN_TURN_ONCE = compose("begin_turn_once")
COMMIT_TURN_ONCE = compose("commit_turn_once")
PUT_ONCE = compose("put_once")
FORGET_KEY = compose("forget_key")
CREATE_CONVERSATION = compose("create_conversation")
FETCH_CONVERSATION = compose("fetch_conversation")
UPDATE_CONVERSATION = compose("update_conversation")
REMOVE_CONVERSATION = compose("remove_conversation")
ADD_ITEMS = compose("add_items")
CONVERSATION_ITEMS = compose("conversation_items")
REMOVE_ITEM = compose("remove_item")
CHANGE_STATUS = compose("change_status")
SUBTREE = compose("subtree")
CHILDREN = compose("children")
SIBLINGS = compose("siblings")
FETCH_MANY = compose("fetch_many")
SESSION_RECORDS = compose("session_records")
FIND_ITEMS = compose("find_items")
FORK = compose("fork")
SWEEP = compose("sweep")
ANNOUNCE = compose("announce")
TENANTS = compose("tenants")
APPEND_EVENTS = compose("append_events")
READ_LOG = compose("read_log")
SPEND = compose("spend")
ENQUEUE_JOB = compose("enqueue_job")
CLAIM_JOB = compose("claim_job")
HEARTBEAT_JOB = compose("heartbeat_job")
SETTLE_JOB = compose("settle_job")
CANCEL_JOB = compose("cancel_job")
DESCRIBE_JOB = compose("describe_job")
READY = compose("ready")
