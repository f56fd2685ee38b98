from __future__ import annotations

from antiphon_translator.engines.placed_delivery import PlacedDelivery
from antiphon_translator.generation import ChatChunk, TextChunk
from antiphon_translator.parsing.segments import Text
from tests.support.pushed import Deliveries


def test_only_the_first_chunk_gets_a_placement_made_of_its_own() -> None:
    received = Deliveries(most=2)
    deliver = PlacedDelivery(received, lambda known: f"<{known}>")
    assert deliver([TextChunk("a", placement="x"), TextChunk("b")])
    assert not deliver([ChatChunk([Text("c")])])
    assert received.received == [
        [TextChunk("a", placement="<x>"), TextChunk("b")],
        [ChatChunk([Text("c")])],
    ]
