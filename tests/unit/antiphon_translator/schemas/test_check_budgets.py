from __future__ import annotations

import pytest

from antiphon_translator.schemas import check_budgets
from antiphon_translator.schemas.check_budgets import BURST_S, CheckBudgets

NODES_PER_S = 1_000


class Clock:
    now_s = 5_000.0

    def __call__(self) -> float:
        return self.now_s


def test_tenant_gets_a_burst_and_then_its_rate() -> None:
    clock = Clock()
    budgets = CheckBudgets(nodes_per_s=NODES_PER_S, monotonic_s=clock)
    burst = int(BURST_S * NODES_PER_S)
    assert budgets.take("a", burst)
    assert not budgets.take("a", 1)
    clock.now_s += 0.5
    assert not budgets.take("a", NODES_PER_S // 2 + 1)
    assert budgets.take("a", NODES_PER_S // 2)
    clock.now_s += 1_000
    assert not budgets.take("a", burst + 1)
    assert budgets.take("a", burst)


def test_budget_of_one_tenant_is_not_used_by_another() -> None:
    budgets = CheckBudgets(nodes_per_s=NODES_PER_S, monotonic_s=Clock())
    assert budgets.take("a", NODES_PER_S)
    assert budgets.take("b", int(BURST_S * NODES_PER_S))


def test_budgets_of_a_limited_number_of_tenants_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_budgets, "ANSWER_CHECKS_TENANTS_ITEMS_MAX", 10)
    budgets = CheckBudgets(nodes_per_s=NODES_PER_S, monotonic_s=Clock())
    assert all(budgets.take(f"tenant {n}", 1) for n in range(100))
    assert len(budgets) == 10
