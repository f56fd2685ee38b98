from __future__ import annotations

import pytest

from antiphon_translator.placement import PLACEMENT_CHARS_MAX, endpoint_of, placement_of, routed_to

ADDRESS = "triton-3.prod.svc.cluster.local:8001"


@pytest.mark.parametrize("where", ["", "ns/pod-7", "bnMvcG9kLTc=", "a@b@c", "é"])
def test_placement_names_its_endpoint_and_keeps_what_the_router_returned(where: str) -> None:
    placement = placement_of(ADDRESS, where)
    assert (endpoint_of(placement), routed_to(placement)) == (placement_of(ADDRESS), where)


def test_placement_has_no_part_of_the_address_and_differs_between_endpoints() -> None:
    names = [ADDRESS, *(f"triton-{number}:8001" for number in range(999))]
    placements = {placement_of(name) for name in names}
    assert len(placements) == len(names)
    assert not any(part in placement for placement in placements for part in ("triton", "8001", "prod"))


def test_long_answer_of_a_router_is_dropped() -> None:
    assert placement_of(ADDRESS, "x" * PLACEMENT_CHARS_MAX) == placement_of(ADDRESS)
