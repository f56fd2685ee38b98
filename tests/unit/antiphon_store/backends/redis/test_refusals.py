from __future__ import annotations

import re

import pytest

from antiphon_core.errors import (
    InternalError,
    InvalidRequest,
    LimitExceeded,
    SessionLocked,
    StaleFence,
    StoreUnavailable,
    VersionMismatch,
)
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.refusals import REFUSALS, accepted
from antiphon_store.backends.redis.scripts import Script


def test_what_is_accepted_is_what_comes_after_ok() -> None:
    assert accepted([b"ok", 1, b"x"]) == [1, b"x"]


def test_facts_become_those_of_the_error() -> None:
    with pytest.raises(VersionMismatch, match="at version 3, not 2"):
        accepted([b"version_mismatch", b"resp_1", b"2", b"3"])
    with pytest.raises(StaleFence) as stale:
        accepted([b"stale_fence", b"s", b"7"])
    assert stale.value.facts == {"session_id": "s", "token": "7"}
    with pytest.raises(SessionLocked) as locked:
        accepted([b"session_locked"], session_id="s")
    assert locked.value.facts["session_id"] == "s"
    with pytest.raises(InvalidRequest) as moved:
        accepted([b"parent_changes", b"resp_1"])
    assert moved.value.field == "record.parent_id"


def test_a_full_session_is_refused_in_the_words_of_the_rules() -> None:
    with pytest.raises(LimitExceeded, match="has made 3 responses") as full:
        accepted([b"session_is_full", b"s", b"3", b"3"])
    assert (full.value.field, full.value.facts["limit"]) == ("record.session_id", "3")
    with pytest.raises(InternalError, match="has room"):
        accepted([b"session_is_full", b"s", b"2", b"3"])


def test_what_the_sweeper_has_to_do_first_can_be_asked_for_again() -> None:
    with pytest.raises(StoreUnavailable, match="swept first"):
        accepted([b"much_to_sweep", b"resp_1"])


def test_an_unknown_refusal_is_our_bug() -> None:
    with pytest.raises(InternalError):
        accepted([b"no_such_refusal"])


def test_the_table_has_exactly_what_scripts_refuse() -> None:
    texts = [value.text for value in vars(scripts).values() if isinstance(value, Script)]
    named = {name for text in texts for name in re.findall(r"return (?:nil, )*\{'([a-z_]+)'", text)}
    assert named - {"ok"} == set(REFUSALS)
