from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_store import cursors
from antiphon_store.cursors import Position
from antiphon_store.testing.subject import draft

QUESTION = ("tenant", "Tree", draft().id)
END = Position(3, 1_700_000_000_000, draft().id)


def test_a_cursor_decodes_to_the_end_of_its_page() -> None:
    assert cursors.decode(QUESTION, cursors.encode(QUESTION, END)) == END


def test_a_missing_cursor_means_the_beginning() -> None:
    assert cursors.decode(QUESTION, None) is None


def test_a_cursor_has_only_url_safe_characters() -> None:
    assert cursors.encode(QUESTION, END).replace("-", "").replace("_", "").isalnum()


def refuse(cursor: str, question: tuple[str, ...] = QUESTION) -> None:
    with pytest.raises(InvalidRequest) as caught:
        cursors.decode(question, cursor)
    assert caught.value.field == "cursor"


@pytest.mark.parametrize("place", range(3))
def test_a_cursor_of_another_query_is_rejected(place: int) -> None:
    other = tuple("other" if index == place else each for index, each in enumerate(QUESTION))
    refuse(cursors.encode(QUESTION, END), other)


def test_a_cursor_of_arguments_with_the_same_concatenation_is_rejected() -> None:
    refuse(cursors.encode(("ab", "c"), END), ("a", "bc"))


@given(data=st.data())
def test_a_damaged_cursor_is_rejected(data: st.DataObject) -> None:
    cursor = cursors.encode(QUESTION, END)
    place = data.draw(st.integers(0, len(cursor) - 1))
    character = data.draw(st.characters(codec="ascii").filter(lambda each: each != cursor[place]))
    refuse(cursor[:place] + character + cursor[place + 1 :])
    refuse(cursor[:place])


@given(text=st.text())
def test_an_arbitrary_text_is_rejected_as_a_cursor(text: str) -> None:
    refuse(text)


@pytest.mark.parametrize(
    "position", [[], [1, 2], [-1, 2, END.id], [1, 2**63, END.id], [1, 2, "x"], ["1", 2, END.id], {"a": 1}, None]
)
def test_a_correctly_hashed_cursor_with_a_malformed_position_is_rejected(position: object) -> None:
    where = dumps(position)
    digest = sha256(dumps(list(QUESTION)) + where).digest()[:12]
    refuse(urlsafe_b64encode(digest + where).rstrip(b"=").decode())
