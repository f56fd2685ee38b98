from __future__ import annotations

from types import SimpleNamespace

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.unserved import Unserved, anything, reject

WISHES = (
    Unserved("prompt", bool, "No prompts."),
    Unserved("image.shown", anything, "No images."),
    Unserved("n", lambda n: n != 1, "One is all.", "unsupported_value"),
)


NOTHING: dict[str, object] = {"prompt": None, "image": None, "n": None}


@pytest.mark.parametrize("members", [{"n": 1}, {"prompt": {}}, {"image": SimpleNamespace(shown=None)}])
def test_what_only_says_what_is_so_anyway_is_no_wish(members: dict[str, object]) -> None:
    reject(WISHES, SimpleNamespace(**NOTHING | members))


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"prompt": {"id": "p"}, "n": 2}, ("No prompts.", "prompt", "unsupported_parameter")),
        ({"image": SimpleNamespace(shown=""), "n": 2}, ("No images.", "image.shown", "unsupported_parameter")),
        ({"n": 2}, ("One is all.", "n", "unsupported_value")),
    ],
)
def test_the_first_wish_is_refused_by_name(members: dict[str, object], told: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reject(WISHES, SimpleNamespace(**NOTHING | members))
    assert (caught.value.message, caught.value.field, caught.value.code) == told
