"""The port of approvals: calls of tools that wait for a person's answer, and the responses that use the answers.

A response that asks for approvals is committed together with them (`TurnCommit.approvals`). The turn with the answers
takes them when it begins (`TurnRequest.consumes`), each once. They last as long as the response that asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import (
    ApprovalId,
    Cursor,
    ListLimit,
    ResponseId,
    Tenant,
    count_within,
)
from antiphon_core.ports.store import Approval, Fence, Order

_SEVERAL = count_within(1, limits.APPROVALS_ITEMS_MAX)


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """`next_cursor` is None on the last page."""

    approvals: Sequence[Approval]
    next_cursor: str | None = None


class Approvals(Protocol):
    """Operations on approvals. Another tenant's approvals do not exist."""

    async def list_approvals(
        self,
        tenant: Tenant,
        *,
        cursor: Cursor | None = None,
        limit: ListLimit = limits.LIST_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ApprovalPage:
        """The approvals that no response has used, by the time at which they were asked for. A page has at most
        PAGE_BYTES_MAX bytes, but at least one approval if there is one."""

    async def hold_approvals(
        self, tenant: Tenant, approval_ids: Annotated[Sequence[ApprovalId], _SEVERAL], response_id: ResponseId
    ) -> Sequence[Approval]:
        """Keeps approvals that the turn of this response took for ever: until then they are taken for a short time.
        Returns them. Idempotent.

        ApprovalAlreadyUsed: another response has taken one of them meanwhile. ApprovalNotFound."""

    async def return_approvals(
        self,
        tenant: Tenant,
        approval_ids: Annotated[Sequence[ApprovalId], _SEVERAL],
        response_id: ResponseId,
        *,
        fence: Fence | None = None,
    ) -> None:
        """Gives back approvals that the turn of this response took, and whose calls were not sent: they can be answered
        again. Does nothing for the others, and for those that another response has. Idempotent.

        `fence` is that of the job of the response. StaleFence."""
