"""The engines of the store with all the time that they may need, for tests in which no time limit is under test.

In life a Redis server that is out of reach for two seconds is down. On a busy machine it may only be waiting for the
processor, or the test may.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from antiphon_store.backends.postgres import connections
from antiphon_store.backends.redis.connection import OPTIONS
from tests.support.patience import PATIENCE_S


@contextmanager
def patient_engines() -> Iterator[None]:
    """For backends that are opened meanwhile. How soon readiness answers stays as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(OPTIONS, "socket_connect_timeout", PATIENCE_S)
        patch.setitem(OPTIONS, "socket_timeout", PATIENCE_S)
        patch.setattr(connections, "CONNECTION_WAIT_S", PATIENCE_S)
        patch.setattr(connections, "ATOM_TIMEOUT_S", PATIENCE_S)
        yield
