from __future__ import annotations

import pytest

from antiphon_core.errors import InternalError
from antiphon_core.ports.store import Fence, History, Lease, Stamp
from antiphon_store.backends import packing
from antiphon_store.backends.redis import answers
from antiphon_store.testing.subject import draft

RECORD = draft()


def stored() -> tuple[bytes, bytes, bytes]:
    items, input_bytes = packing.pack(RECORD.input_items, RECORD.output_items)
    crcs = packing.checksum(RECORD.id, input_bytes, items), packing.body_checksum(RECORD.id, RECORD.body)
    words = [RECORD.id, 1, 0, 0, 3, "completed", 10, 20, ".", ".", ".", 99, input_bytes, *crcs]
    return " ".join(map(str, words)).encode(), items, RECORD.body


def test_a_record_comes_back_whole() -> None:
    record = answers.record(stored())
    assert (record.id, record.body, record.input_items) == (RECORD.id, RECORD.body, RECORD.input_items)
    assert (record.output_items, record.version, record.depth) == (RECORD.output_items, 3, 0)
    assert (record.created_at_ms, record.updated_at_ms, record.expires_at_ms) == (10, 20, None)
    assert (record.parent_id, record.session_id) == (None, None)


@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("damage", [None, b"", b"x"])
def test_damage_is_an_error_that_names_the_response(part: int, damage: bytes | None) -> None:
    parts: list[bytes | None] = list(stored())
    parts[part] = damage
    with pytest.raises(InternalError) as caught:
        answers.record(parts)
    assert caught.value.facts["id"] == RECORD.id


@pytest.mark.parametrize("words", [None, b"", b"resp_1 1 0", b"\xff"])
def test_damaged_words_are_an_error(words: bytes | None) -> None:
    with pytest.raises(InternalError):
        answers.read_meta(words)


def test_a_history_is_joined_and_checked() -> None:
    meta, items, _body = stored()
    assert answers.history(RECORD.id, [[meta], [items]]) == History(b"[" + items + b"]", 1, RECORD.id)
    assert answers.history("", [[], []]) == History()
    with pytest.raises(InternalError):
        answers.history(RECORD.id, [[meta], [items + b" "]])


def test_stamps_leases_and_sessions() -> None:
    assert answers.stamp([1, 2, 3, 4, None]) == Stamp(1, 2, 3, 4, None)
    lease = Lease(Fence("s", 5), "ü", 6)
    assert answers.lease("s", [5, "ü".encode(), 6]) == lease
    session = answers.session("s", [5, "ü".encode(), 6, b""])
    assert (session.last_fence, session.lease, session.head_id) == (5, lease, None)
    assert answers.session("s", [5, b"", 0, b"resp_1"]).lease is None
