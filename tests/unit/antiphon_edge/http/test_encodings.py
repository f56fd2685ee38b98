from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import pytest
from aiohttp.test_utils import make_mocked_request

from antiphon_edge.http.encodings import MEMBERS_MAX, BodyDecoder, Reserve, decoder_of, is_readable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE_BYTES = 100_000
TEXT = random.Random(0).randbytes(5_000) * 300
PACKED: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}


def decoder(encoding: str, reserve: Reserve = lambda _: None) -> BodyDecoder:
    found = decoder_of(make_mocked_request("POST", "/", headers={"Content-Encoding": encoding}), reserve)
    assert found is not None
    return found


@pytest.mark.parametrize("headers", [{"Content-Encoding": ""}, {"Content-Encoding": "Identity"}])
def test_a_body_that_is_not_encoded_needs_no_decoder(headers: dict[str, str]) -> None:
    request = make_mocked_request("POST", "/", headers=headers)
    assert is_readable(request)
    assert decoder_of(request, lambda _: None) is None


def pieces_of(under_test: BodyDecoder, data: bytes) -> Iterator[bytes]:
    steps = under_test.feed(data)
    step = next(steps, None)
    while step is not None:
        piece = step(PIECE_BYTES)
        yield piece
        try:
            step = steps.send(piece)
        except StopIteration:
            return


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("step", [1, 7, 10**9])
def test_a_body_in_any_cuts_is_decoded_in_limited_pieces(encoding: str, step: int) -> None:
    data, under_test = PACKED[encoding](TEXT), decoder(encoding)
    pieces = list(chain.from_iterable(pieces_of(under_test, data[at : at + step]) for at in range(0, len(data), step)))
    under_test.end()
    assert b"".join(pieces) == TEXT
    assert max(map(len, pieces)) <= PIECE_BYTES


@pytest.mark.parametrize("encoding", PACKED)
def test_a_body_that_ends_early_is_malformed(encoding: str) -> None:
    under_test = decoder(encoding)
    list(pieces_of(under_test, PACKED[encoding](TEXT)[:-1]))
    with pytest.raises(ValueError, match="ends early"):
        under_test.end()


@pytest.mark.parametrize(("encoding", "members_max"), [("gzip", MEMBERS_MAX), ("zstd", MEMBERS_MAX), ("deflate", 1)])
def test_the_number_of_members_is_limited(encoding: str, members_max: int) -> None:
    under_test, member = decoder(encoding), PACKED[encoding](b"x")
    assert b"".join(pieces_of(under_test, member * members_max)) == b"x" * members_max
    with pytest.raises(ValueError, match="too many members"):
        list(pieces_of(under_test, member))


def frame_with(window_log: int) -> bytes:
    return b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3]) + b"\x09\x00\x00x"


@pytest.mark.parametrize(("window_log", "is_read"), [(23, True), (24, False)])
def test_a_zstd_window_over_8_mib_is_rejected(window_log: int, is_read: bool) -> None:
    """The frame has one raw block of one byte. Its header asks for the window."""
    frame = frame_with(window_log)
    if is_read:
        assert b"".join(pieces_of(decoder("zstd"), frame)) == b"x"
    else:
        with pytest.raises(ValueError, match="not in its encoding"):
            list(pieces_of(decoder("zstd"), frame))


@pytest.mark.parametrize("step", [1, 10**9])
def test_the_largest_zstd_window_of_a_body_is_reserved(step: int) -> None:
    reserved: list[int] = []
    data = frame_with(20) + frame_with(23) + frame_with(22) + zstd.compress(b"x")
    under_test = decoder("zstd", reserved.append)
    pieces = list(chain.from_iterable(pieces_of(under_test, data[at : at + step]) for at in range(0, len(data), step)))
    assert (b"".join(pieces), reserved) == (b"xxxx", [2**20, 2**23 - 2**20])


def test_a_zstd_window_is_not_allocated_before_it_is_reserved() -> None:
    def reject(size: int) -> None:
        raise MemoryError(size)

    with pytest.raises(MemoryError):
        list(pieces_of(decoder("zstd", reject), frame_with(23)[:6]))


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_other_encodings_reserve_nothing(encoding: str) -> None:
    reserved: list[int] = []
    data = PACKED.get(encoding, bytes)(TEXT)
    assert b"".join(pieces_of(decoder(encoding, reserved.append), data)) == TEXT
    assert reserved == []
