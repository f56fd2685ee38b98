"""Names, completes and checks the arguments of the ports' methods. Defaults are those of the port; the name of a
parameter selects its check.

The service checks arguments, and so does the client before it sends: both reject a value that the wire cannot carry
with the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from antiphon_core import limits
from antiphon_store.rules import common as rules
from antiphon_store.rules import values
from antiphon_store.rules.common import Check, each_of, within

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
_Method = Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Answer]]


CHECKS: Mapping[str, Check] = {
    "after": rules.check_item_id,
    "append": values.check_append,
    "commit": values.check_turn_commit,
    "content": rules.check_prompt_content,
    "conversation_id": rules.check_conversation_id,
    "cursor": rules.check_cursor,
    "draft": values.check_draft,
    "expected_version": within(1, rules.INT64_MAX),
    "fence": values.check_fence,
    "holder": rules.check_holder,
    "idempotency_key": rules.check_key,
    "ids": each_of(rules.check_response_id, most=limits.LOOKUP_ITEMS_MAX),
    "item_id": rules.check_item_id,
    "item_ids": each_of(rules.check_item_id, most=limits.LOOKUP_ITEMS_MAX),
    "items": rules.check_given,
    "job_id": rules.check_response_id,
    "lease_ttl_ms": rules.check_lease_ttl,
    "limit": within(1, limits.PAGE_ITEMS_MAX),
    "max_bytes": within(1, limits.CHAIN_BYTES_MAX),
    "max_depth": within(1, limits.CHAIN_DEPTH_MAX),
    "max_nodes": within(1, limits.TREE_NODES_MAX),
    "metadata": rules.check_given,
    "new_session_id": rules.check_session_id,
    "precondition": values.check_precondition,
    "prompt_id": rules.check_prompt_id,
    "queues": each_of(rules.check_queue, most=limits.CLAIM_QUEUES_ITEMS_MAX),
    "reason": rules.check_reason,
    "record": values.check_record,
    "request": values.check_turn_request,
    "response_id": rules.check_response_id,
    "session_id": rules.check_session_id,
    "source": values.check_fork_source,
    "quota_request": values.check_quota_request,
    "tenant": rules.check_tenant,
    "ttl_ms": rules.check_lease_ttl,
    "version": within(1, limits.PROMPT_VERSIONS_ITEMS_MAX),
    "wait_ms": within(0, limits.LEASE_WAIT_MS_MAX),
}

INLINE = {"append", "commit", "draft", "request", "source", "quota_request"}
"""Arguments that are not named in errors: `draft.queue` is reported as `queue`, because the members of these arguments
are the fields of the request."""

_BY_ID: Mapping[str, str | Check] = {"response_id": "id", "conversation_id": "id", "job_id": "id", "prompt_id": "id"}
_LIST: Mapping[str, str | Check] = {"response_id": "id", "limit": within(1, limits.LIST_ITEMS_MAX)}
_LIFETIME: Mapping[str, str | Check] = {"conversation_id": "id", "ttl_ms": rules.check_ttl}
_JOB: Mapping[str, str | Check] = {"fence": values.check_job_fence, "after_ms": within(0, limits.JOB_DELAY_MS_MAX)}

EXCEPTIONS: Mapping[str, Mapping[str, str | Check]] = {
    **dict.fromkeys(("get", "delete", "chain", "tree", "update_status", "cancel_job", "describe_job"), _BY_ID),
    **dict.fromkeys(("get_conversation", "update_conversation", "delete_conversation"), _BY_ID),
    **dict.fromkeys(("put_prompt", "get_prompt", "delete_prompt"), _BY_ID),
    **dict.fromkeys(("children", "siblings", "leaves", "list_responses"), _LIST),
    **dict.fromkeys(("put", "create_conversation"), _LIFETIME),
    **dict.fromkeys(("heartbeat_job", "settle_job"), _JOB),
    "read_events": {"after": within(0, rules.INT64_MAX - 1)},
    "sweep": {"limit": within(1, limits.SWEEP_ITEMS_MAX)},
}
"""Exceptions from `CHECKS`, by method and parameter: another name for errors, or another rule."""


def implements(
    port: _Method[_Parameters, _Answer],
) -> Callable[[Callable[..., Coroutine[Any, Any, _Answer]]], _Method[_Parameters, _Answer]]:
    """Decorates the service's method for one of the ports: it gets every argument by name, completed and checked."""
    bind = binder(port)

    def decorate(method: Callable[..., Coroutine[Any, Any, _Answer]]) -> _Method[_Parameters, _Answer]:
        @wraps(port)
        async def call(self: Any, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Answer:
            return await method(self, **bind(args, kwargs))

        call.__doc__ = port.__doc__ or method.__doc__
        return call

    return decorate


def binder(port: Callable[..., Any]) -> Callable[[tuple[Any, ...], Mapping[str, Any]], dict[str, Any]]:
    """Makes the function that names and completes the arguments of a method, and checks those that are not None.
    TypeError: the method cannot be called with them."""
    called = signature(port)
    parameters = list(called.parameters.values())[1:]  # after self
    names = [each.name for each in parameters]
    defaults = {each.name: each.default for each in parameters if each.default is not Parameter.empty}
    positional = sum(each.kind is not Parameter.KEYWORD_ONLY for each in parameters)
    all_names, checks = set(names), _checks(port.__name__, names)

    def bind(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        named = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if named.keys() != all_names or len(args) > positional or not kwargs.keys().isdisjoint(names[: len(args)]):
            called.bind(None, *args, **kwargs)  # raises
        for name, check, field in checks:
            value = named[name]
            if value is not None:
                check(value, field)
        return named

    return bind


def _checks(method: str, names: Sequence[str]) -> list[tuple[str, Check, str]]:
    """The names of a method's arguments with their rules, and their names in errors."""
    exceptions = EXCEPTIONS.get(method, {})
    checks: list[tuple[str, Check, str]] = []
    for name in names:
        exception = exceptions.get(name, "" if name in INLINE else name)
        if not isinstance(exception, str):
            checks.append((name, exception, name))
        elif name in CHECKS:
            checks.append((name, CHECKS[name], exception))
    return checks
