from __future__ import annotations

import pytest

from antiphon_translator.media.sight import Sight


@pytest.mark.parametrize(
    ("sight", "controls", "left"),
    [
        (Sight.NATIVE, {"images", "stop"}, Sight.NATIVE),
        (Sight.NATIVE, {"stop"}, Sight.REFUSE),
        (Sight.PLACEHOLDER, set[str](), Sight.PLACEHOLDER),
        (Sight.REFUSE, {"images"}, Sight.REFUSE),
    ],
)
def test_a_model_sees_as_far_as_its_engine_does(sight: Sight, controls: set[str], left: Sight) -> None:
    assert sight.with_controls(controls) is left
