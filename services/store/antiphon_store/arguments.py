"""The arguments of the service's methods: each is checked by the name of its parameter, before anything happens.

`CHECKS` has the usual rule of each name. Where a method means something else by it, its decorator says so: with another
name for errors, or with another rule.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from antiphon_core import limits
from antiphon_store import rules
from antiphon_store.conversations.rules import check_conversation_id
from antiphon_store.event_logs.rules import check_append
from antiphon_store.jobs.rules import check_draft, check_queue, check_reason
from antiphon_store.lineage.rules import check_cursor, check_fork_source
from antiphon_store.quotas.rules import check_spend
from antiphon_store.rules import Check, each_of, within

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
_Method = Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Answer]]

CHECKS: Mapping[str, Check] = {
    "after": rules.check_text,
    "append": check_append,
    "commit": rules.check_turn_commit,
    "conversation_id": check_conversation_id,
    "cursor": check_cursor,
    "draft": check_draft,
    "expected_version": within(1, rules.INT64_MAX),
    "fence": rules.check_fence,
    "holder": rules.check_holder,
    "idempotency_key": rules.check_key,
    "ids": each_of(rules.check_response_id, most=limits.LOOKUP_ITEMS_MAX),
    "item_id": rules.check_text,
    "item_ids": each_of(rules.check_text, most=limits.LOOKUP_ITEMS_MAX),
    "job_id": rules.check_response_id,
    "lease_ttl_ms": rules.check_lease_ttl,
    "limit": within(1, limits.PAGE_ITEMS_MAX),
    "max_bytes": within(1, limits.CHAIN_BYTES_MAX),
    "max_depth": within(1, limits.CHAIN_DEPTH_MAX),
    "max_nodes": within(1, limits.TREE_NODES_MAX),
    "new_session_id": rules.check_session_id,
    "precondition": rules.check_precondition,
    "queues": each_of(check_queue, most=limits.CLAIM_QUEUES_ITEMS_MAX),
    "reason": check_reason,
    "record": rules.check_record,
    "request": rules.check_turn_request,
    "response_id": rules.check_response_id,
    "session_id": rules.check_session_id,
    "source": check_fork_source,
    "spend": check_spend,
    "tenant": rules.check_tenant,
    "ttl_ms": rules.check_lease_ttl,
    "wait_ms": within(0, limits.LEASE_WAIT_MS_MAX),
}

LIST_LIMIT = within(1, limits.LIST_ITEMS_MAX)


def checked(
    **exceptions: str | Check,
) -> Callable[[_Method[_Parameters, _Answer]], _Method[_Parameters, _Answer]]:
    """Checks the arguments of a method by `CHECKS` and `exceptions`. An argument that is None is not checked."""

    def decorate(method: _Method[_Parameters, _Answer]) -> _Method[_Parameters, _Answer]:
        require = argument_check(method, exceptions)

        @wraps(method)
        async def call(self: Any, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Answer:
            require(args, kwargs)
            return await method(self, *args, **kwargs)

        return call

    return decorate


def handed_on(
    port: _Method[_Parameters, _Answer], operation: str, **exceptions: str | Check
) -> _Method[_Parameters, _Answer]:
    """Makes the method of `port` whose arguments, once they are checked, are those of `operation` of the engine."""
    require = argument_check(port, exceptions)
    places, defaults = port.__code__.co_varnames[1 : port.__code__.co_argcount], port.__kwdefaults__ or {}

    @wraps(port)
    async def call(self: Any, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Answer:
        require(args, kwargs)
        named: dict[str, Any] = {**defaults, **kwargs}
        placed = [named.pop(name) for name in places[len(args) :]]
        answer: _Answer = await getattr(self.engine, operation)(*args, *placed, **named)
        return answer

    return call


def argument_check(
    method: Callable[..., Any], exceptions: Mapping[str, str | Check]
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], None]:
    """Makes the check of the arguments of a call, by place and by name. Arguments that are left out need none."""
    names = list(signature(method).parameters)[1:]  # behind self
    chosen = [(place, name, *_rule_of(name, exceptions.get(name))) for place, name in enumerate(names)]

    def require(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        for place, name, check, field in chosen:
            value = args[place] if place < len(args) else kwargs.get(name)
            if check is not None and value is not None:
                check(value, field)

    return require


def _rule_of(name: str, exception: str | Check | None) -> tuple[Check | None, str]:
    """The rule of a parameter, and its name in errors."""
    if isinstance(exception, str):
        return CHECKS[name], exception
    return exception or CHECKS.get(name), name
