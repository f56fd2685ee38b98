"""Maps errors of Redis and of its client to errors of `antiphon_core.errors`."""

from __future__ import annotations

from redis import exceptions

from antiphon_core.errors import AntiphonError
from antiphon_store.backends.faults import report, report_damage


class TooFewCopies(exceptions.RedisError):
    """Too few replicas confirmed a write within the timeout of WAIT."""


# Error codes of a server, for conditions that end by themselves or that an operator can end.
_REASONS = {
    "LOADING": "Redis is still loading its data",
    "READONLY": "the server is a replica",
    "NOREPLICAS": "too few replicas follow the master",
    "MISCONF": "Redis cannot save to its disk",
    "OOM": "Redis is out of memory",
    "BUSY": "Redis is busy with a script",
    "CLUSTERDOWN": "the cluster does not cover all slots",
    "TRYAGAIN": "the cluster is moving the data",
    "MOVED": "the cluster is moving the data",
    "ASK": "the cluster is moving the data",
    "MASTERDOWN": "the link to the master is down",
    "NOAUTH": "Redis rejects the credentials",
    "WRONGPASS": "Redis rejects the credentials",
    "NOPERM": "Redis rejects the credentials",
}
_DAMAGED = ("@user_script", "WRONGTYPE")
"""Parts of errors that the store's own programs never cause: a script found no number or no row where it has to be, or
a key of another type."""
_FULL = ("OOM", "MISCONF")  # Redis rejects new rows; stored rows can be read
# Errors of the client library, which have no code. Subclasses come before their parents.
_CLASSES: tuple[tuple[type[Exception], str], ...] = (
    (TooFewCopies, "a write reached too few replicas in time, and may be kept or lost"),
    (exceptions.AuthenticationError, _REASONS["NOAUTH"]),
    (exceptions.ClusterError, _REASONS["CLUSTERDOWN"]),
    (exceptions.RedisClusterException, _REASONS["CLUSTERDOWN"]),
    (exceptions.TimeoutError, "Redis does not answer"),
    (exceptions.ConnectionError, "Redis cannot be reached"),
    (TimeoutError, "Redis does not answer"),
    (OSError, "Redis cannot be reached"),
)


def translate(error: Exception) -> AntiphonError:
    """Logs a database error, and returns the error for the caller."""
    if isinstance(error, exceptions.ResponseError) and any(each in str(error) for each in _DAMAGED):
        return report_damage("redis", error, type(error).__name__)
    code = (
        getattr(error, "status_code", None) or str(error).partition(" ")[0]
    )  # the client library does not know all codes
    reason = _REASONS.get(code) or next((reason for cls, reason in _CLASSES if isinstance(error, cls)), None)
    return report("redis", error, type(error).__name__, reason, is_full=code in _FULL)
