"""Whether a model sees images: what its profile says, and what its engine can be given."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum


class Sight(Enum):
    """The treatment of the images of a conversation."""

    NATIVE = "native"
    """The model sees them."""
    PLACEHOLDER = "placeholder"
    """It reads that there was one: [image: 640x480 png, not shown to this model]."""
    REFUSE = "refuse"
    """They are refused, with their path."""

    def with_controls(self, controls: Collection[str]) -> Sight:
        """The treatment on an engine with these controls: REFUSE instead of NATIVE where the engine takes no images."""
        return Sight.REFUSE if self is Sight.NATIVE and "images" not in controls else self
