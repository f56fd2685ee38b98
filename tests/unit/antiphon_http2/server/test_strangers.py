"""The budgets of calls without authentication. test_floods.py uses them on connections."""

from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_http2.limits import ADDRESS_ITEMS_MAX, ADDRESSES_ITEMS_MAX, HANDSHAKE_ITEMS, STRANGER_ITEMS_MAX
from antiphon_http2.server.strangers import AddressBudgets, StrangerBudget

CLOCK = ManualClock()


def test_budgets_of_addresses_are_kept_for_those_that_connected_last() -> None:
    budgets = AddressBudgets(CLOCK.monotonic)
    first, second = budgets.of("first"), budgets.of("second")
    for number in range(ADDRESSES_ITEMS_MAX - 2):
        budgets.of(str(number))
    assert budgets.of("first") is first
    budgets.of("one more")
    assert budgets.of("first") is first
    assert budgets.of("second") is not second


def test_authentication_gives_back_what_the_call_and_its_connection_were_charged() -> None:
    address = AddressBudgets(CLOCK.monotonic).of("10.0.0.1")
    for _ in range(3 * ADDRESS_ITEMS_MAX // STRANGER_ITEMS_MAX):
        budget = StrangerBudget(CLOCK.monotonic)
        budget.share(address)
        budget.charge(STRANGER_ITEMS_MAX)
        budget.refund(STRANGER_ITEMS_MAX)
        assert not budget.is_spent
    assert not address.is_empty


def test_calls_that_began_beside_the_first_known_one_are_given_back_to_the_address_too() -> None:
    address = AddressBudgets(CLOCK.monotonic).of("10.0.0.1")
    for _ in range(3 * ADDRESS_ITEMS_MAX // STRANGER_ITEMS_MAX):
        budget = StrangerBudget(CLOCK.monotonic)
        budget.share(address)
        calls = [STRANGER_ITEMS_MAX // 4] * 4
        for items in calls:
            budget.charge(items)
        for items in calls:
            budget.refund(items)
        budget.charge(ADDRESS_ITEMS_MAX)  # a known connection charges its address nothing, and gives it nothing back
        budget.refund(ADDRESS_ITEMS_MAX)
    assert not address.is_empty
    address.take(ADDRESS_ITEMS_MAX + 1)
    assert address.is_empty


def test_connections_are_charged_for_their_handshakes_until_a_caller_is_known() -> None:
    address = AddressBudgets(CLOCK.monotonic).of("10.0.0.1")
    budgets = [StrangerBudget(CLOCK.monotonic) for _ in range(ADDRESS_ITEMS_MAX // HANDSHAKE_ITEMS + 1)]
    for budget in budgets:
        assert not budget.is_spent
        budget.share(address, HANDSHAKE_ITEMS)
    assert address.is_empty
    budgets[0].refund(0)
    assert not address.is_empty


def test_a_known_connection_has_a_budget_of_its_own() -> None:
    address = AddressBudgets(CLOCK.monotonic).of("10.0.0.1")
    address.take(ADDRESS_ITEMS_MAX + 1)
    budget = StrangerBudget(CLOCK.monotonic)
    budget.share(address)
    assert budget.is_spent
    budget.charge(1)
    budget.refund(1)
    assert not budget.is_spent
    budget.charge(STRANGER_ITEMS_MAX + 1)
    assert budget.is_spent
