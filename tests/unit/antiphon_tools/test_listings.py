from __future__ import annotations

from collections.abc import Mapping

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ports.tools import Approval, Tool
from antiphon_tools.listings import BYTES_MAX, KNOWN_S, LISTINGS_ITEMS_MAX, Listings, listing_of
from antiphon_tools.mcp.client import ToolPages
from antiphon_tools.server_file import OperatorServer
from antiphon_tools.targets import Target

KEY = ("acme", "github https://a.example", "digest")
ADD = Tool("add", digest="1", annotations=b'{"readOnlyHint":true}')
SEND = Tool("send", digest="2", annotations=b'{"idempotentHint":true}')


@pytest.mark.parametrize(("ttl_ms", "fresh_s"), [(None, 300), (10_000, 10), (0, 0), (-5, 0), (999_999_999, 300)])
def test_a_listing_is_fresh_as_long_as_setting_and_server_allow_and_known_for_longer(
    ttl_ms: int | None, fresh_s: int
) -> None:
    clock = ManualClock()
    listings = Listings(ttl_s=300, clock=clock)
    listings.put(KEY, ToolPages((ADD,), ttl_ms))
    assert listings.known(KEY) == {"add": ADD}
    if fresh_s:
        clock.advance(fresh_s - 1)
        assert listings.fresh(KEY) == {"add": ADD}
        clock.advance(1)
    assert listings.fresh(KEY) is None
    assert listings.known(KEY) == {"add": ADD}
    clock.advance(KNOWN_S)
    assert listings.known(KEY) is None


def test_other_credentials_or_tenants_do_not_see_a_listing() -> None:
    listings = Listings(ttl_s=300, clock=ManualClock())
    listings.put(KEY, ToolPages((ADD,)))
    for other in (("globex", *KEY[1:]), (KEY[0], "client https://a.example", KEY[2]), (*KEY[:2], "other")):
        assert listings.known(other) is None


def test_changed_definitions_are_counted() -> None:
    listings = Listings(ttl_s=300, clock=ManualClock())
    assert listings.put(KEY, ToolPages((ADD, SEND))) == 0
    assert listings.put(KEY, ToolPages((SEND, ADD))) == 0
    assert listings.put(KEY, ToolPages((Tool("add", digest="9"), Tool("new", digest="1")))) == 1


def test_listings_are_bounded_in_number_and_bytes() -> None:
    listings = Listings(ttl_s=300, clock=ManualClock())
    for number in range(LISTINGS_ITEMS_MAX + 1):
        listings.put((str(number), "", ""), ToolPages((ADD,)))
    assert listings.known(("0", "", "")) is None
    assert listings.known(("1", "", "")) is not None
    large = Tool("large", input_schema=b"x" * (BYTES_MAX // 4))
    for number in range(5):
        listings.put((f"large {number}", "", ""), ToolPages((large,)))
    assert [listings.known((f"large {n}", "", "")) is not None for n in range(5)] == [False, False, True, True, True]


def target(**members: object) -> Target:
    return Target("github https://a.example", "https://a.example", {}, OperatorServer("github", "", **members))  # type: ignore[arg-type]


TOOLS: Mapping[str, Tool] = {"add": ADD, "send": SEND}


def test_hints_count_only_where_the_operator_trusts_them() -> None:
    def hints(of: Target) -> list[tuple[bool, bool]]:
        return [(tool.is_read_only, tool.is_repeatable) for tool in listing_of(of, TOOLS).tools]

    assert hints(target()) == [(False, False), (False, False)]
    assert hints(target(trust_annotations=True)) == [(True, True), (False, True)]
    assert hints(target(deduplicates=True)) == [(False, True), (False, True)]
    assert hints(Target("client x", "x", {})) == [(False, False), (False, False)]


def test_tools_that_are_not_permitted_or_not_pinned_are_left_out() -> None:
    assert [tool.name for tool in listing_of(target(tools=("s*",)), TOOLS).tools] == ["send"]
    assert [tool.name for tool in listing_of(target(pins={"add": "1", "send": "other"}), TOOLS).tools] == ["add"]


def test_a_listing_has_the_policy_of_the_operator() -> None:
    found = listing_of(target(approval=Approval.ALWAYS, parallel=False), TOOLS)
    assert (found.identity, found.approval, found.is_parallel) == (
        "github https://a.example",
        Approval.ALWAYS,
        False,
    )
    assert listing_of(Target("client x", "x", {}), TOOLS).approval is Approval.CLIENT
