"""Reads rows from what a database holds, and recognises rows that the store has never written.

Each row is checked against the form of its kind (row_forms.py) where a backend reads it. The fields of a chain are only
parsed here, because checking thousands of nodes takes as long as parsing them: the rules that use them check them
(decisions/nodes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from antiphon_core import damage
from antiphon_store.rows import row_forms
from antiphon_store.rows.model import Kind, Ref, Row

_Text = TypeVar("_Text", bytes, str)


class RowReader(Generic[_Text]):
    """Reads the rows of one backend. `parse` parses the text of a row's fields, `parse_all` those of several rows as
    one, which is faster."""

    def __init__(self, parse: Callable[[_Text], Any], parse_all: Callable[[Sequence[_Text]], Any]) -> None:
        self._parse: Callable[[_Text], Any] = parse
        self._parse_all: Callable[[Sequence[_Text]], Any] = parse_all

    def row(self, ref: Ref, text: _Text, items: bytes | None = b"", body: bytes | None = b"") -> Row:
        """Reads a row. DataDamaged."""
        try:
            fields = self._parse(text)
        except damage.UNREADABLE:
            fields = None
        _require_form(ref, fields)
        items, body = items or b"", body or b""
        if type(items) is not bytes or type(body) is not bytes:
            raise damage.report(f"{ref.kind} '{ref.id}'", "its payloads are no bytes")
        return Row(fields, items, body)

    def chain(self, ids: Sequence[str], texts: Sequence[_Text]) -> Sequence[Mapping[str, Any]]:
        """Parses the fields of nodes, and does not check them. DataDamaged: they are no JSON objects."""
        try:
            found: Sequence[Any] = self._parse_all(texts)
        except damage.UNREADABLE:
            found = ()
        if len(found) == len(texts) and set(map(type, found)) <= {dict}:
            return found
        return [self.row(Ref(Kind.NODE, node_id), text).fields for node_id, text in zip(ids, texts, strict=True)]

    def nodes(self, ids: Sequence[str], texts: Sequence[_Text]) -> Sequence[Mapping[str, Any]]:
        """Reads the fields of nodes. DataDamaged."""
        found = self.chain(ids, texts)
        require_sound_nodes(ids, found)
        return found


def require_sound_nodes(ids: Sequence[str], found: Sequence[Mapping[str, Any]]) -> None:
    """Checks the fields of nodes. DataDamaged."""
    try:
        if row_forms.are_sound(found):
            return
    except damage.UNREADABLE:  # a reader of single rows names the damaged one
        pass
    for node_id, fields in zip(ids, found, strict=True):
        _require_form(Ref(Kind.NODE, node_id), fields)


def _require_form(ref: Ref, fields: Any) -> None:
    if type(fields) is not dict or not row_forms.form_of(ref).fits(fields):
        raise damage.report(f"{ref.kind} '{ref.id}'", "its fields are not what the store writes")
