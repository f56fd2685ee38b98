"""Models for `linearizability`: one response, and the lease of one session. Their states are

    response    None, or (version, status, content)
    lease       (last token, holder or None); leases are longer than a history, so none expires

The models repeat the rules of `decisions.records` and `decisions.leases`: a model that called those modules would agree
with their mistakes. The answer of a failed call is the class name of its error.
"""

from __future__ import annotations

from typing import Any

from antiphon_store.testing.linearizability import UNKNOWN, Model, Operation

_Response = tuple[int, str, str] | None
_Lease = tuple[int, str | None]


def _put(state: _Response, status: str, content: str, expected: int | None) -> tuple[_Response, Any]:
    """In this order, as in `decisions.records`: replay, insert, replace."""
    version = state[0] if state else 0
    if state and state[1:] == (status, content) and expected in (None, version - 1):
        return state, version
    if state and not expected:
        return state, "AlreadyExists"
    if expected not in (None, version):
        return state, "VersionMismatch"
    return (version + 1, status, content), version + 1


def _get(state: _Response) -> tuple[_Response, Any]:
    return state, state or "ResponseNotFound"


def _update_status(state: _Response, status: str, expected: int | None) -> tuple[_Response, Any]:
    if state is None:
        return state, "ResponseNotFound"
    version, current, content = state
    if current == status and (expected is None or 0 < expected == version - 1):
        return state, version
    if expected not in (None, version):
        return state, "VersionMismatch"
    return (version + 1, status, content), version + 1


def _delete(state: _Response, expected: int | None) -> tuple[_Response, Any]:
    if state is None:
        return state, "ResponseNotFound"
    if expected not in (None, state[0]):
        return state, "VersionMismatch"
    return None, None


def _acquire(state: _Lease, holder: str) -> tuple[_Lease, Any]:
    token, current = state
    if current is None:
        return (token + 1, holder), token + 1
    return state, token if current == holder else "SessionLocked"


def _renew(state: _Lease, token: int) -> tuple[_Lease, Any]:
    return state, token if state[1] is not None and state[0] == token else "StaleFence"


def _release(state: _Lease, token: int) -> tuple[_Lease, Any]:
    held = state[1] is not None and state[0] == token
    return (state[0], None) if held else state, held


def _describe(state: _Lease) -> tuple[_Lease, Any]:
    return state, state


def _is_passive(operation: Operation) -> bool:
    """Whether the call changed nothing: a read, a renewal of a lease, a failed call, or a release of a free lease."""
    if operation.answer == UNKNOWN:
        return False
    return operation.name in PASSIVE or isinstance(operation.answer, str) or operation.answer is False


PASSIVE = frozenset({"get", "renew", "describe"})
RESPONSE = Model(None, {"put": _put, "get": _get, "update_status": _update_status, "delete": _delete}, _is_passive)
LEASE = Model(
    (0, None), {"acquire": _acquire, "renew": _renew, "release": _release, "describe": _describe}, _is_passive
)
MODELS = {"response": RESPONSE, "lease": LEASE}
