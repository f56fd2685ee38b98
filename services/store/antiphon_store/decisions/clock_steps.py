"""Clocks that are set back: a row says when its times were written, so that a later look sees it.

A time in a row is good while the clock goes on. When somebody sets the clock of the database back by an hour, each time
that was written before lies an hour further away: leases of dead holders would live for so long, and queued jobs would
wait for so long. A stamp that lies ahead of the clock is the proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STEP_MS = 1_000
"""So far ahead a stamp may lie: servers that follow each other after a failover differ by less."""


def set_back_ms(fields: Mapping[str, Any], now_ms: int) -> int:
    """How far the clock was set back since `stamp` was written in these fields; 0 when it was not."""
    ahead_ms: int = (fields.get("stamp") or 0) - now_ms
    return ahead_ms if ahead_ms > STEP_MS else 0
