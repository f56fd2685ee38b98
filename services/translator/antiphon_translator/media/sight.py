"""Whether a model sees images, by its profile and the controls of its engine."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum


class Sight(Enum):
    """The treatment of the images of a conversation."""

    NATIVE = "native"
    """The model sees the images."""
    PLACEHOLDER = "placeholder"
    """The model reads a text instead: [image: 640x480 png, not shown to this model]."""
    REFUSE = "refuse"
    """The request is rejected; the error names the path of the image."""

    def with_controls(self, controls: Collection[str]) -> Sight:
        """The treatment on an engine with these controls: REFUSE instead of NATIVE where the engine takes no images."""
        return Sight.REFUSE if self is Sight.NATIVE and "images" not in controls else self
