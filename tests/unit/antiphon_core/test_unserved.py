from __future__ import annotations

from types import SimpleNamespace

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.unserved import Unserved, anything, reject

UNSERVED = (
    Unserved("prompt", bool, "No prompts."),
    Unserved("image.shown", anything, "No images."),
    Unserved("n", lambda n: n != 1, "One is all.", "unsupported_value"),
)


NOTHING: dict[str, object] = {"prompt": None, "image": None, "n": None}


@pytest.mark.parametrize("members", [{"n": 1}, {"prompt": {}}, {"image": SimpleNamespace(shown=None)}])
def test_an_unserved_member_that_asks_for_nothing_is_accepted(members: dict[str, object]) -> None:
    reject(UNSERVED, SimpleNamespace(**NOTHING | members))


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"prompt": {"id": "p"}, "n": 2}, ("No prompts.", "prompt", "unsupported_parameter")),
        ({"image": SimpleNamespace(shown=""), "n": 2}, ("No images.", "image.shown", "unsupported_parameter")),
        ({"n": 2}, ("One is all.", "n", "unsupported_value")),
    ],
)
def test_the_first_unserved_member_is_rejected_by_name(members: dict[str, object], told: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reject(UNSERVED, SimpleNamespace(**NOTHING | members))
    assert (caught.value.message, caught.value.field, caught.value.code) == told


def test_an_unserved_member_of_a_part_is_rejected_with_its_path() -> None:
    with pytest.raises(InvalidRequest) as caught:
        reject(UNSERVED, SimpleNamespace(**NOTHING | {"n": 2}), within="parts[1]")
    assert caught.value.field == "parts[1].n"
