from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import DataDamaged
from antiphon_core.jsons import dumps, loads
from antiphon_store.rows.model import Kind, Ref, Row
from antiphon_store.rows.stored_rows import RowReader
from antiphon_store.testing.subject import draft
from tests.support.rows import node

READER = RowReader[bytes](loads, lambda texts: loads(b"[%b]" % b",".join(texts)))
FIELDS = node(draft()).fields
TEXT = dumps(FIELDS)
REF = Ref(Kind.NODE, "resp_b")


def test_a_row_is_read_with_its_payloads() -> None:
    assert READER.row(REF, TEXT, b"items", None) == Row(FIELDS, b"items", b"")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"{}", b"\xff"])
def test_a_damaged_row_is_named(text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataDamaged, match="Node 'resp_b' is damaged"):
        READER.row(REF, text)
    (line,) = caplog.records
    assert "resp_b" in line.getMessage()


@pytest.mark.parametrize("payload", [5, "text", 1.5])
def test_a_payload_that_is_no_bytes_is_damage(payload: Any) -> None:
    with pytest.raises(DataDamaged, match="resp_b"):
        READER.row(REF, TEXT, payload)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{},{}", b"7"])
def test_the_damaged_one_of_several_nodes_is_named(text: bytes) -> None:
    for read in (READER.nodes, READER.chain):
        assert read(["a", "b"], [TEXT, TEXT]) == [FIELDS, FIELDS]
        with pytest.raises(DataDamaged, match="Node 'b' is damaged"):
            read(["a", "b", "c"], [TEXT, text, TEXT])


def test_nodes_are_checked_and_those_of_a_chain_are_left_to_its_rules() -> None:
    text = dumps({**FIELDS, "depth": "x"})
    assert READER.chain(["a"], [text])[0]["depth"] == "x"
    with pytest.raises(DataDamaged, match="Node 'a' is damaged"):
        READER.nodes(["a"], [text])
