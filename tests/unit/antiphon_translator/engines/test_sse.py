from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_translator.engines import sse
from antiphon_translator.engines.sse import EventData

STREAM = (
    b': ping\n\ndata: {"a":1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\nid: 7\n\ndata: [DONE]\n\ndata: cut off\n'
)
EVENTS = [b'{"a":1}', b"two\nlines", b"[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
def test_event_data_does_not_depend_on_how_the_stream_is_cut(size: int) -> None:
    events = EventData()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [data for piece in pieces for data in events.feed(piece)] == EVENTS


def test_line_over_the_size_limit_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "ENGINE_TEXT_BYTES_MAX", 10)
    with pytest.raises(EngineFault, match="too long"):
        EventData().feed(b"data: 12345")
