"""Converts between the values of the translator's port and its gRPC messages, for server and client."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from antiphon_core.errors import InvalidRequest, ServiceFault
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import (
    NO_USAGE,
    Batch,
    EndedTurn,
    EngineTimes,
    Final,
    Model,
    Pause,
    Resume,
    ServerTool,
    Turn,
    Usage,
)
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_protos.antiphon.translator import v1

_GenerateResponse = TRANSLATOR.methods["Generate"].response.message  # protobuf's own class, which is faster

_STATUS = {
    Status.COMPLETED: v1.FinalStatus.COMPLETED,
    Status.INCOMPLETE: v1.FinalStatus.INCOMPLETE,
    Status.FAILED: v1.FinalStatus.FAILED,
}
_EMPTY = b"[]"
_COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens")
_FINAL_ENDS = (b"{", b"}", b"[", b"]")
"""The first and last bytes of a response and of its items. Parsing them would take as long as the answer is large."""
_FROM_STATUS = {number: status for status, number in _STATUS.items()}


def turn_message(turn: Turn) -> Any:
    return v1.Turn(
        response_id=turn.response_id,
        created_at=turn.created_at,
        request=turn.request,
        history=turn.history,
        input=turn.input,
        output=turn.output if turn.output != _EMPTY else b"",
        used=v1.Usage(**_usage_fields(turn.used)) if turn.used is not NO_USAGE else None,
        cache_salt=turn.cache_salt,
        lineages=list(turn.lineages),
        round_lineage=turn.round_lineage,
        approval_tools=[v1.ServerTool(*each) for each in turn.approval_tools],
    )


def turn_value(message: Any, tenant: str, compared: Any = None) -> Turn:
    """InvalidRequest: the turn is missing. `compared` is the message of the response that it is compared with."""
    if message is None:
        raise InvalidRequest("Missing required parameter: 'turn'.", field="turn", code="missing_required_parameter")
    return Turn(
        response_id=message.response_id,
        created_at=message.created_at,
        request=message.request,
        history=message.history or _EMPTY,
        input=message.input or _EMPTY,
        output=message.output or _EMPTY,
        used=_usage_value(message.used) if message.used is not None else NO_USAGE,
        lineages=tuple(message.lineages),
        round_lineage=message.round_lineage,
        approval_tools=tuple(ServerTool(each.server_label, each.name) for each in message.approval_tools),
        tenant=tenant,
        cache_salt=message.cache_salt,
        compared=ended_value(compared, tenant) if compared is not None else None,
    )


def ended_message(ended: EndedTurn | None) -> Any:
    return ended and v1.EndedTurn(turn=turn_message(ended.turn), output_items=ended.output_items, lineage=ended.lineage)


def ended_value(message: Any, tenant: str) -> EndedTurn | None:
    """InvalidRequest: the turn is missing."""
    return message and EndedTurn(turn_value(message.turn, tenant), message.output_items or _EMPTY, message.lineage)


def resume_message(resume: Resume | None) -> Any:
    return resume and v1.Resume(
        next_sequence=resume.next_sequence, token_ids=list(resume.token_ids), sent_items=resume.sent_items
    )


def resume_value(message: Any) -> Resume | None:
    return message and Resume(message.next_sequence, tuple(message.token_ids), message.sent_items)


def batch_message(batch: Batch) -> Any:
    return _GenerateResponse(
        first_sequence=batch.first_sequence,
        count=batch.count,
        frames=batch.frames,
        final=_final_fields(batch.final) if batch.final is not None else None,
        token_ids=batch.token_ids,
        pause=_pause_fields(batch.pause) if batch.pause is not None else None,
    )


def batch_value(message: Any) -> Batch:
    """ServiceFault: the message is not one that a translator sends."""
    return Batch(
        first_sequence=message.first_sequence,
        count=message.count,
        frames=message.frames,
        final=_final_value(message.final) if message.HasField("final") else None,
        token_ids=tuple(message.token_ids),
        pause=_pause_value(message.pause) if message.HasField("pause") else None,
    )


def model_message(model: Model) -> Any:
    return v1.Model(
        id=model.id,
        root=model.root,
        context_length=model.context_length,
        ready=model.ready,
        reason=model.reason,
        created_at=model.created_at,
    )


def model_value(message: Any) -> Model:
    return Model(
        id=message.id,
        root=message.root,
        context_length=message.context_length,
        ready=message.ready,
        reason=message.reason,
        created_at=message.created_at,
    )


def _pause_fields(pause: Pause) -> dict[str, Any]:
    used = _usage_fields(pause.used)
    return {"output_items": pause.output_items, "used": used, "cut_off": pause.cut_off, "lineage": pause.lineage}


def _pause_value(message: Any) -> Pause:
    """ServiceFault: the message is not one that a translator sends."""
    items = message.output_items
    if (items[:1], items[-1:]) != _FINAL_ENDS[2:]:
        raise ServiceFault("A translator paused a response with something that is no output.")
    used = _usage_value(message.used)
    return Pause(output_items=items, used=used, cut_off=message.cut_off, lineage=message.lineage)


def _usage_fields(usage: Usage) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in _COUNTS}


def _usage_value(message: Any) -> Usage:
    """The message of either class: betterproto2 has None for an absent number, protobuf has 0."""
    is_absent = isinstance(message, Message) and not message.HasField("cached_tokens")
    counts = {name: getattr(message, name) for name in _COUNTS}
    return Usage(**counts | ({"cached_tokens": None} if is_absent else {}))


def _final_fields(final: Final) -> dict[str, Any]:
    times = {"queue_ns": final.times.queue_ns, "prefill_ns": final.times.prefill_ns}
    return {
        "status": _STATUS[final.status],
        "body": final.body,
        "output_items": final.output_items,
        "lineage": final.lineage,
        "times": times,
    }


def _final_value(message: Any) -> Final:
    status, body, items = _FROM_STATUS.get(message.status), message.body, message.output_items
    if status is None or (body[:1], body[-1:], items[:1], items[-1:]) != _FINAL_ENDS:
        raise ServiceFault("A translator ended a response with something that is no response.")
    times = _times_value(message.times)
    return Final(status=status, body=body, output_items=items, lineage=message.lineage, times=times)


def _times_value(message: Any) -> EngineTimes:
    given = {name: getattr(message, name) for name in ("queue_ns", "prefill_ns") if message.HasField(name)}
    return EngineTimes(**given)
