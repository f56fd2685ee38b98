from __future__ import annotations

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.tenants import TenantMetrics


def turns(tenant: str) -> float:
    child = metrics.TENANT_TURNS.children().get((tenant, "completed"))
    return 0.0 if child is None else child.value


def test_no_tenant_is_named_unless_a_setting_allows_it() -> None:
    tenants = TenantMetrics()
    tenants.turn_ended("tenant-off", "completed")
    tenants.tokens_used("tenant-off", input_tokens=1, output_tokens=1)
    assert not tenants.is_on
    assert not [labels for labels in metrics.TENANT_TOKENS.children() if labels[0] == "tenant-off"]
    assert turns("tenant-off") == 0


def test_tenants_beyond_the_bound_are_counted_together() -> None:
    tenants, others = TenantMetrics(), turns("other")
    tenants.allow(2)
    for tenant in ("tenant-a", "tenant-b", "tenant-c", "tenant-d", "tenant-a"):
        tenants.turn_ended(tenant, "completed")
    assert (turns("tenant-a"), turns("tenant-b"), turns("tenant-c"), turns("other") - others) == (2, 1, 0, 2)


def test_tokens_are_counted_by_kind() -> None:
    tenants = TenantMetrics(1)
    tenants.tokens_used("tenant-t", input_tokens=5, output_tokens=7)
    assert metrics.TENANT_TOKENS.of("tenant-t", "input").value == 5
    assert metrics.TENANT_TOKENS.of("tenant-t", "output").value == 7
