from __future__ import annotations

from types import SimpleNamespace

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.unserved import Unserved, refuse

WISHES = (
    Unserved("prompt", bool, "No prompts."),
    Unserved("n", lambda n: n != 1, "One is all.", "unsupported_value"),
)


@pytest.mark.parametrize("request_", [{"prompt": None, "n": 1}, {"prompt": {}, "n": None}])
def test_what_only_says_what_is_so_anyway_is_no_wish(request_: dict[str, object]) -> None:
    refuse(WISHES, SimpleNamespace(**request_))


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"prompt": {"id": "p"}, "n": 2}, ("No prompts.", "prompt", "unsupported_parameter")),
        ({"prompt": None, "n": 2}, ("One is all.", "n", "unsupported_value")),
    ],
)
def test_the_first_wish_is_refused_by_name(request_: dict[str, object], told: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        refuse(WISHES, SimpleNamespace(**request_))
    assert (caught.value.message, caught.value.field, caught.value.code) == told
