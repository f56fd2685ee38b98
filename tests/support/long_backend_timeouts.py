"""Long timeouts of the store's databases, for tests of other features: on a busy machine a server may be late without
being down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from antiphon_store.backends.postgres import connections
from antiphon_store.backends.redis.connection import OPTIONS
from tests.support.waiting import WAIT_MAX_S


@contextmanager
def long_backend_timeouts() -> Iterator[None]:
    """A context for opening backends with long timeouts. The timeout of readiness stays unchanged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(OPTIONS, "socket_connect_timeout", WAIT_MAX_S)
        patch.setitem(OPTIONS, "socket_timeout", WAIT_MAX_S)
        patch.setattr(connections, "CONNECTION_WAIT_S", WAIT_MAX_S)
        patch.setattr(connections, "ATOM_TIMEOUT_S", WAIT_MAX_S)
        yield
