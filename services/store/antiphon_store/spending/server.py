"""gRPC to spending, one to one; see `antiphon_store.server`."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core.ports.spending import Spending
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.store import v1
from antiphon_store.spending import wire


def handlers(service: Spending) -> Mapping[str, Handler]:
    async def spend(request: v1.SpendRequest, call: Call) -> v1.SpendResponse:
        return wire.to_spent(await service.spend(call.tenant, wire.from_spend(request)))

    return {"Spend": spend}
