"""Events of types that this release does not know: they are passed on, counted, and logged once for each type.

They come from a newer service during a rolling upgrade.
"""

from __future__ import annotations

import logging

from antiphon_core.telemetry import metrics

log = logging.getLogger(__name__)

_LOGGED_MAX = 100
_logged: set[str] = set()


def note(event_type: str) -> None:
    """Takes note of an event of an unknown type."""
    metrics.UNKNOWN_EVENTS.of().add()
    if event_type not in _logged and len(_logged) < _LOGGED_MAX:
        _logged.add(event_type)
        log.warning("an event of the unknown type %r is passed on; its content is missing from failures", event_type)
