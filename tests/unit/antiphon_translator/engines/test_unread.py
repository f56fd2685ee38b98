from __future__ import annotations

import pytest

from antiphon_core.telemetry import metrics
from antiphon_translator.engines.unread import UnreadParts, describe


def test_each_part_is_counted_and_the_first_of_its_kind_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    unread = UnreadParts("unread_model")
    for given in ("ominous", "worse"):
        unread.note("finish_reason", given)
    unread.note("usage", [])
    assert metrics.ENGINE_UNREAD.of("unread_model", "finish_reason").value == 2
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "the server's finish_reason cannot be read: ominous",
        "the server's usage cannot be read: an array",
    ]


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ("eos", "eos"),
        ("my secret is 7", "a text of 14 characters"),
        ({"type": "x", "a b": 1, "text": "my secret"}, "an object with type, text"),
        ({"a b": 1}, "an object"),
        (7, "an integer"),
        (None, "null"),
    ],
)
def test_form_of_a_part_has_nothing_of_its_text(given: object, form: str) -> None:
    assert describe(given) == form
