"""The volume of tests with many cases: `make nightly` runs the full volume, every other run a sample."""

from __future__ import annotations

import os
from typing import TypeVar

_Amount = TypeVar("_Amount")

IS_NIGHTLY = os.environ.get("TEST_VOLUME") == "nightly"


def volume(sample: _Amount, nightly: _Amount) -> _Amount:
    return nightly if IS_NIGHTLY else sample
