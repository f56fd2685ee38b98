"""Messages of spending to values and back; see `antiphon_store.wire`."""

from __future__ import annotations

from antiphon_core.ports.spending import Draw, Hold, Level, Refusal, Spend, Spent
from antiphon_protos.antiphon.store import v1


def to_spend(spend: Spend) -> v1.SpendRequest:
    hold = spend.hold
    return v1.SpendRequest(
        draws=[
            v1.Draw(
                name=draw.name,
                amount=draw.amount,
                at_least=draw.at_least,
                capacity=draw.capacity,
                per_minute=draw.per_minute,
            )
            for draw in spend.draws
        ],
        hold=v1.Hold(ids=list(hold.ids), most=hold.most, ttl_ms=hold.ttl_ms) if hold is not None else None,
        release_ids=list(spend.release),
    )


def from_spend(message: v1.SpendRequest) -> Spend:
    hold = message.hold
    return Spend(
        draws=[Draw(draw.name, draw.amount, draw.at_least, draw.capacity, draw.per_minute) for draw in message.draws],
        hold=Hold(hold.ids, hold.ttl_ms, hold.most) if hold is not None else None,
        release=message.release_ids,
    )


def to_spent(spent: Spent) -> v1.SpendResponse:
    refusal = spent.refusal
    return v1.SpendResponse(
        levels=[
            v1.BucketLevel(name=level.name, level=level.level, capacity=level.capacity, full_in_ms=level.full_in_ms)
            for level in spent.levels
        ],
        refusal=v1.SpendRefusal(bucket=refusal.bucket or "", retry_after_ms=refusal.retry_after_ms)
        if refusal is not None
        else None,
    )


def from_spent(message: v1.SpendResponse) -> Spent:
    refusal = message.refusal
    return Spent(
        levels=tuple(Level(each.name, each.level, each.capacity, each.full_in_ms) for each in message.levels),
        refusal=Refusal(refusal.bucket or None, refusal.retry_after_ms) if refusal is not None else None,
    )
