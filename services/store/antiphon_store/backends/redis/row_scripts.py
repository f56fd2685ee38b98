"""The scripts that serve rows, by what the servers have to keep of them."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha1

from antiphon_store.backends.redis.scripts import Script, compose


def with_flags(script: Script, flags: str) -> Script:
    """The script for a server that must know more about it: `no-writes` runs on one that may not write, `allow-oom` on
    one whose memory is full."""
    text = script.text.replace("#!lua", f"#!lua flags={flags}", 1)
    sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
    return replace(script, text=text, sha=sha, lasts=script.lasts and flags != "no-writes")


TRANSACT = compose("rows/transact")
TRANSACT_VOLATILE = replace(TRANSACT, lasts=False)
TRANSACT_READING = with_flags(TRANSACT, "no-writes")
TRANSACT_SMALL = with_flags(TRANSACT, "allow-oom")  # or nobody could end or delete anything then
JOINT = {each: replace(each, is_frequent=True) for each in (TRANSACT, TRANSACT_SMALL)}
PAGE = compose("rows/page")
SUBTREE = compose("rows/subtree")
TAKE_DUE = compose("rows/take_due")
ENTRIES = compose("rows/entries")
NAMES = compose("rows/names")
