from __future__ import annotations

import pytest

from antiphon_translator.lineage import cache_loss
from antiphon_translator.lineage.cache_loss import Loss
from antiphon_translator.placement import PlacementHint, placement_of


@pytest.mark.parametrize(
    ("cached", "root", "loss"),
    [(969, 100, Loss.BLOCK), (900, 100, Loss.EVICTED), (132, 100, Loss.UNKNOWN), (0, 0, Loss.UNKNOWN)],
)
def test_loss_by_the_tokens_alone_is_named_only_where_they_tell(cached: int, root: int, loss: Loss) -> None:
    assert cache_loss.of_parts(1_000, cached, root_tokens=root) is loss


def test_placements_of_a_routers_servers_are_at_one_endpoint() -> None:
    hint = PlacementHint(placement_of("a", "pod-1"), 1, 0)
    assert not cache_loss.is_elsewhere(hint, placement_of("a", "pod-2"))
    assert cache_loss.is_elsewhere(hint, placement_of("b"))


def test_salts_differ_in_their_digests_and_no_salt_has_none() -> None:
    assert cache_loss.salt_digest("one") != cache_loss.salt_digest("two")
    assert cache_loss.salt_digest(None) == cache_loss.salt_digest("") == b""
