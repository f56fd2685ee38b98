from __future__ import annotations

import pytest

from antiphon_core.errors import DataDamaged, InvalidRequest
from antiphon_translator.prompt import history_damage
from tests.support.served_models import turn


@pytest.mark.parametrize(
    ("field", "code", "expected"),
    [
        ("history", "invalid_json", DataDamaged),
        ("history[3].role", "invalid_type", DataDamaged),
        ("history[3].content[0]", "unsupported_value", InvalidRequest),  # an image, and a model that sees none
        ("input[0].role", "invalid_type", InvalidRequest),
        (None, None, InvalidRequest),
    ],
)
def test_only_types_and_json_of_the_history_are_damage(field: str | None, code: str, expected: type[Exception]) -> None:
    error = InvalidRequest("wrong", field=field, code=code)
    with pytest.raises(expected):
        history_damage.raise_if_damaged(turn("hi"), error)
        raise error
