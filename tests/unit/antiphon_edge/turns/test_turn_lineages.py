from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon_edge.turns.turn_lineages import choose_lineages


@pytest.mark.parametrize(
    ("lineages", "chosen"),
    [
        ((), ()),
        ((b"", b"aaa", b"bbbb"), (b"", b"aaa", b"bbbb")),
        ((b"aaa", b"bb", b"cccc", b"dd"), (b"aaa", b"bb", b"", b"dd")),
        ((b"aaaaaa", b"b", b"", b"dddd"), (b"", b"", b"", b"dddd")),
        ((b"aaa", b"dddddddddd"), (b"aaa", b"dddddddddd")),
        ((b"aaaaaa", b"dddddd"), (b"", b"dddddd")),
    ],
)
def test_the_first_lineages_are_kept_beside_the_newest(lineages: Sequence[bytes], chosen: Sequence[bytes]) -> None:
    assert choose_lineages(lineages, bytes_max=10) == chosen


def test_a_chain_that_grows_keeps_the_lineages_that_it_had() -> None:
    """Only the newest one changes: the ids at the beginning of the prompt stay those that the engine has."""
    lineages = [bytes([number]) * (10 + 13 * number % 30) for number in range(20)]
    kept: Sequence[bytes] = ()
    for length in range(10, 20):
        *earlier, newest = choose_lineages(lineages[:length], bytes_max=200)
        assert len(newest) + sum(map(len, earlier)) <= 200
        assert newest == lineages[length - 1]
        first = [each for each in earlier if each]
        assert first == lineages[: len(first)]
        assert kept in ((), first)
        kept = first
