from __future__ import annotations

from antiphon_store.backends.base import Write
from antiphon_store.backends.memory_catalogue import Catalogue
from antiphon_store.testing.subject import draft


def test_a_response_is_found_by_what_is_filed_of_it_last() -> None:
    catalogue, record = Catalogue(), draft(session_id="one")
    key = ("t", record.id)
    catalogue.file("t", Write(record, item_ids=("a", "b")))
    assert list(catalogue.of_session("t", "one")) == list(catalogue.of_item("t", "b")) == [key]
    catalogue.file("t", Write(draft(session_id="one"), item_ids=("a",)))
    catalogue.file("t", Write(record, item_ids=("b",)))
    assert key not in catalogue.of_item("t", "a")
    assert list(catalogue.of_item("t", "b")) == [key]
    assert not catalogue.of_item("other", "b")


def test_nothing_stays_of_what_was_dropped() -> None:
    catalogue, record = Catalogue(), draft(session_id="s")
    catalogue.file("t", Write(record, item_ids=("a",)))
    catalogue.drop(("t", record.id))
    catalogue.drop(("t", record.id))
    assert not catalogue._keys
    assert not catalogue._names
