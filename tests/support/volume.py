"""How much a test of many does: `make nightly` runs the full volume, every other run a sample."""

from __future__ import annotations

import os

IS_NIGHTLY = os.environ.get("TEST_VOLUME") == "nightly"


def volume(sample: int, nightly: int) -> int:
    return nightly if IS_NIGHTLY else sample
