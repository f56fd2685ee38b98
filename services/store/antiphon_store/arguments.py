"""The arguments of the ports' methods: each is checked by the name of its parameter, before anything happens.

The service checks them, and so does the client before it sends: what the wire cannot carry is refused in the same words
here and there.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from antiphon_core import limits
from antiphon_core.ports.store import TurnCommit
from antiphon_store.rules import common as rules
from antiphon_store.rules.common import Check, each_of, within
from antiphon_store.rules.event_logs import check_append, check_log_end
from antiphon_store.rules.jobs import check_draft, check_job_fence, check_queue, check_reason, check_turn_job
from antiphon_store.rules.lineage import check_cursor, check_fork_source
from antiphon_store.rules.quotas import check_spend

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
_Method = Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Answer]]


def check_commit(commit: TurnCommit, field: str) -> None:
    """The record, what comes with it, and the fences under which it is written."""
    rules.check_turn_commit(commit, field)
    if commit.log_end is not None:
        check_log_end(commit.record.id, commit.log_end)
    if commit.job is not None:
        check_turn_job(commit.record, commit.job)


CHECKS: Mapping[str, Check] = {
    "after": rules.check_text,
    "append": check_append,
    "commit": check_commit,
    "content": rules.check_prompt_content,
    "conversation_id": rules.check_conversation_id,
    "cursor": check_cursor,
    "draft": check_draft,
    "expected_version": within(1, rules.INT64_MAX),
    "fence": rules.check_fence,
    "holder": rules.check_holder,
    "idempotency_key": rules.check_key,
    "ids": each_of(rules.check_response_id, most=limits.LOOKUP_ITEMS_MAX),
    "item_id": rules.check_text,
    "item_ids": each_of(rules.check_text, most=limits.LOOKUP_ITEMS_MAX),
    "items": rules.check_given,
    "job_id": rules.check_response_id,
    "lease_ttl_ms": rules.check_lease_ttl,
    "limit": within(1, limits.PAGE_ITEMS_MAX),
    "max_bytes": within(1, limits.CHAIN_BYTES_MAX),
    "max_depth": within(1, limits.CHAIN_DEPTH_MAX),
    "max_nodes": within(1, limits.TREE_NODES_MAX),
    "metadata": rules.check_given,
    "new_session_id": rules.check_session_id,
    "precondition": rules.check_precondition,
    "prompt_id": rules.check_prompt_id,
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
    "version": within(1, limits.PROMPT_VERSIONS_ITEMS_MAX),
    "wait_ms": within(0, limits.LEASE_WAIT_MS_MAX),
}

_BY_ID: Mapping[str, str | Check] = {"response_id": "id", "conversation_id": "id", "job_id": "id", "prompt_id": "id"}
_LIST: Mapping[str, str | Check] = {"response_id": "id", "limit": within(1, limits.LIST_ITEMS_MAX)}
_LIFETIME: Mapping[str, str | Check] = {"conversation_id": "id", "ttl_ms": rules.check_ttl}
_JOB: Mapping[str, str | Check] = {"fence": check_job_fence, "after_ms": within(0, limits.JOB_DELAY_MS_MAX)}

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
"""Of methods that mean something else by a name than `CHECKS`: another name for errors, or another rule."""


def checked(method: _Method[_Parameters, _Answer]) -> _Method[_Parameters, _Answer]:
    """Decorates a method of the service: its arguments are checked first."""
    require = argument_check(method)

    @wraps(method)
    async def call(self: Any, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Answer:
        require(args, kwargs)
        return await method(self, *args, **kwargs)

    return call


def argument_check(method: Callable[..., Any]) -> Callable[[tuple[Any, ...], Mapping[str, Any]], None]:
    """Makes the check of the arguments of a call, by place and by name. One that is None or left out needs none."""
    exceptions = EXCEPTIONS.get(method.__name__, {})
    chosen: list[tuple[int, str, Check, str]] = []  # place and name of the parameter, its rule, its name in errors
    for place, name in enumerate(list(signature(method).parameters)[1:]):  # behind self
        exception = exceptions.get(name, name)
        if not isinstance(exception, str):
            chosen.append((place, name, exception, name))
        elif name in CHECKS:
            chosen.append((place, name, CHECKS[name], exception))

    def require(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        for place, name, check, field in chosen:
            value = args[place] if place < len(args) else kwargs.get(name)
            if value is not None:
                check(value, field)

    return require
