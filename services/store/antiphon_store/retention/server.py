"""gRPC to retention, one to one; see `antiphon_store.server`."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core import limits
from antiphon_core.ports.retention import Retention
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.store import v1


def handlers(service: Retention) -> Mapping[str, Handler]:
    async def sweep(request: v1.SweepRequest, call: Call) -> v1.SweepResponse:
        swept = await service.sweep(call.tenant, limit=request.limit or limits.SWEEP_ITEMS_DEFAULT)
        return v1.SweepResponse(
            reclaimed_records=swept.records, reclaimed_bytes=swept.size_bytes, has_more=swept.has_more
        )

    return {"Sweep": sweep}
