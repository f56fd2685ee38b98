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
            b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\x01" + bytes(15) + b"\x63\x00\x00\x00", id="an unknown type"
        ),
    ],
)
def test_an_invalid_gguf_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(LocalModelError, match=r"bad\.gguf cannot be read as a GGUF model file: .+"):
        read_metadata(path)


def test_a_missing_gguf_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match=r"There is no file .*nothing\.gguf"):
        read_metadata(tmp_path / "nothing.gguf")
