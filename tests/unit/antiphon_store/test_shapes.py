"""Single shapes. test_calls.py sends every value of the ports over the wire."""

from __future__ import annotations

from dataclasses import MISSING
from enum import StrEnum
from operator import getitem

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.store import Fence, ItemPage, Order, Precondition, Record, Stamp, Status, TurnRequest
from antiphon_core.rpc.methods import STORE
from antiphon_store.shapes import Shape, Slot, find_field, make_slot

PUT = STORE.methods["PutResponseRecord"].request.strict
LIST = STORE.methods["ListInputItems"].request.strict
RECORD = PUT.DESCRIPTOR.fields_by_name["record"].message_type
PRECONDITION = PUT.DESCRIPTOR.fields_by_name["precondition"].message_type


def only(slot: Slot) -> Shape:
    return Shape([slot], lambda value: value, getitem)


def test_members_have_the_fields_of_their_names_or_aliases() -> None:
    fields = {name: find_field(name, LIST.DESCRIPTOR) for name in ("response_id", "limit", "after", "nothing")}
    names = {name: field and field.name for name, field in fields.items()}
    assert names == {"response_id": "response_id", "limit": "page_size", "after": "page_token", "nothing": None}


def test_a_member_without_a_field_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="no field for 'nothing'"):
        make_slot("nothing", str, MISSING, LIST.DESCRIPTOR)


def test_a_field_without_a_member_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="has fields that Stamp lacks"):
        Shape.of_all(Stamp, RECORD)


def test_an_enum_with_other_members_raises_a_type_error() -> None:
    class Direction(StrEnum):
        UP = "up"

    with pytest.raises(TypeError, match="different members"):
        make_slot("order", Direction, MISSING, LIST.DESCRIPTOR)


def test_an_absent_field_becomes_none_or_its_default() -> None:
    shape = Shape.of(TurnRequest, STORE.methods["BeginTurn"].request.strict.DESCRIPTOR)
    assert shape.get(STORE.methods["BeginTurn"].request.strict()) == TurnRequest()
    order = make_slot("order", Order, Order.DESCENDING, LIST.DESCRIPTOR)
    assert only(order).get(LIST()) is Order.DESCENDING
    slot = make_slot("precondition", Precondition, Precondition(), PUT.DESCRIPTOR)
    assert only(slot).get(PUT()) == Precondition()
    assert only(slot).put({"precondition": Precondition()}) == {}


def test_version_zero_differs_from_no_version_on_the_wire() -> None:
    shape = Shape.of(Precondition, PRECONDITION)
    for version in (None, 0, 7):
        request = PUT(precondition=shape.put(Precondition(version=version, fence=Fence("s", 1))))
        assert shape.get(request.precondition).version == version


def test_a_message_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'record' is missing") as caught:
        only(make_slot("record", Record, MISSING, PUT.DESCRIPTOR)).get(PUT())
    assert caught.value.field == "record"


@pytest.mark.parametrize(
    ("number", "words"), [(0, "'record.status' is missing"), (99, "'record.status' has the unknown value 99")]
)
def test_a_number_that_its_enum_lacks_is_refused(number: int, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        Shape.of(Record, RECORD, "record.").get(PUT(record={"status": number}).record)
    assert caught.value.field == "record.status"


def test_unknown_numbers_in_a_list_are_refused() -> None:
    for field in ("statuses", "unless_statuses"):
        with pytest.raises(InvalidRequest) as caught:
            Shape.of(Precondition, PRECONDITION, "precondition.").get(PUT(precondition={field: [3, 42]}).precondition)
        assert caught.value.field == f"precondition.{field}"


def test_sets_are_sent_in_order() -> None:
    statuses = Shape.of(Precondition, PRECONDITION).put(Precondition(statuses=frozenset(Status)))["statuses"]
    assert len(statuses) == len(Status)
    assert (
        statuses
        == Shape.of(Precondition, PRECONDITION).put(Precondition(statuses=frozenset(reversed(Status))))["statuses"]
    )


def test_a_page_of_items_has_a_next_page_token_only_if_more_follow() -> None:
    answer = STORE.methods["ListInputItems"].response.strict
    shape = Shape.of(ItemPage, answer.DESCRIPTOR)
    assert shape.put(ItemPage(b"[]", "a", "b", has_more=True))["next_page_token"] == "b"
    assert "next_page_token" not in shape.put(ItemPage(b"[]", "a", "b", has_more=False))
