import struct
from pathlib import Path

import pytest

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.gguf_file import read_metadata
from tests.unit.antiphon_local_triton.gguf_writer import Value, write_gguf

METADATA: dict[str, Value] = {
    "name": "tiny ▁ model",
    "size": 7,
    "scale": 0.5,
    "flag": True,
    "tokens": ["a", "", "ö"],
    "kinds": [1, 3, 6],
    "none": [],
}


@pytest.mark.parametrize("version", [2, 3])
def test_reads_every_kind_of_value(tmp_path: Path, version: int) -> None:
    assert read_metadata(write_gguf(tmp_path / "a.gguf", METADATA, version=version)) == METADATA


def test_a_file_of_a_machine_with_the_other_byte_order_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 1) + struct.pack(">Q4sIQ", 4, b"size", 10, 2**40))
    assert read_metadata(path) == {"size": 2**40}


def test_arrays_in_arrays_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    rows = struct.pack("<IQ", 0, 2) + b"\1\2" + struct.pack("<IQ", 7, 1) + b"\1"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q4sIIQ", 4, b"rows", 9, 9, 2) + rows)
    assert read_metadata(path) == {"rows": [[1, 2], [True]]}


def test_every_truncation_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "a.gguf", METADATA).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        with pytest.raises(LocalModelError, match="cannot be read as a GGUF"):
            read_metadata(cut)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"PK\x03\x04" + bytes(40), id="a zip file"),
        pytest.param(b"GGUF\x09\x00\x00\x00" + bytes(16), id="a version from the future"),
        pytest.param(b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\xff" * 8, id="countless keys"),
        pytest.param(
            b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\x01" + bytes(7) + b"\xff" * 8 + bytes(9), id="an endless name"
        ),
        pytest.param(
            b"GGUF\x03\x00\x00\x00"
            + bytes(8)
            + b"\x01"
            + bytes(15)
            + struct.pack("<I", 9)
            + struct.pack("<IQ", 9, 1) * 10_000,
            id="arrays in arrays without end",
        ),
        pytest.param(
            b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\x01" + bytes(15) + b"\x63\x00\x00\x00", id="an unknown type"
        ),
    ],
)
def test_what_is_no_gguf_file_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(LocalModelError, match=r"bad\.gguf cannot be read as a GGUF model file: .+"):
        read_metadata(path)


def test_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match=r"There is no file .*nothing\.gguf"):
        read_metadata(tmp_path / "nothing.gguf")
