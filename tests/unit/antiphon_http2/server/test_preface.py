from __future__ import annotations

import pytest

from antiphon_http2.frames import PREFACE
from antiphon_http2.server.preface import PrefaceReader, WrongPreface


@pytest.mark.parametrize("step", [1, 7, 24, 30])
def test_bytes_behind_the_preface_are_returned_whatever_the_cuts(step: int) -> None:
    data, reader, rest = PREFACE + b"settings", PrefaceReader(), b""
    for at in range(0, len(data), step):
        piece = data[at : at + step]
        rest += piece if reader.is_complete else reader.receive(piece)
    assert (rest, reader.is_complete) == (b"settings", True)


@pytest.mark.parametrize("cut", range(24))
def test_first_wrong_byte_is_noticed(cut: int) -> None:
    reader = PrefaceReader()
    assert reader.receive(PREFACE[:cut]) == b""
    with pytest.raises(WrongPreface):
        reader.receive(b"\xff")
