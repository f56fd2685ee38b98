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
def test_images_are_native_only_with_an_engine_that_takes_them(sight: Sight, controls: set[str], left: Sight) -> None:
    assert sight.with_controls(controls) is left
