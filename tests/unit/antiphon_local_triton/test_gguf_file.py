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


NUMBERS = [("B", 0, 200), ("b", 1, -7), ("H", 2, 7), ("h", 3, -7), ("I", 4, 7), ("i", 5, -7), ("f", 6, 0.5)]
NUMBERS += [("?", 7, True), ("Q", 10, 2**63), ("q", 11, -7), ("d", 12, 0.1)]


def with_tensors(order: str, *begins: int, alignment: int | None = None) -> bytes:
    """A file of all numbers, of a list of each, and of tensors of one byte that begin there behind the metadata."""

    def text(content: str) -> bytes:
        return struct.pack(order + "Q", len(content)) + content.encode()

    pairs = [text(form) + struct.pack(f"{order}I{form}", kind, value) for form, kind, value in NUMBERS]
    pairs += [text("list " + f) + struct.pack(f"{order}IIQ2{f}", 9, kind, 2, value, 0) for f, kind, value in NUMBERS]
    pairs += [text("lists") + struct.pack(order + "IIQIQ", 9, 9, 1, 8, 1) + text("inner")]
    pairs += [text("general.alignment") + struct.pack(order + "II", 4, alignment)] if alignment is not None else []
    tensors = [text("t") + struct.pack(order + "IQIQ", 1, 1, 24, begin) for begin in begins]
    head = b"GGUF" + struct.pack(order + "IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % (alignment or 32))


@pytest.mark.parametrize("order", "<>")
def test_reads_numbers_of_all_types_in_both_byte_orders(tmp_path: Path, order: str) -> None:
    (tmp_path / "a.gguf").write_bytes(with_tensors(order))
    found = read_metadata(tmp_path / "a.gguf")
    assert found.pop("lists") == [["inner"]]
    assert found == {form: value for form, _, value in NUMBERS} | {
        f"list {form}": [value, 0] for form, _, value in NUMBERS
    }


@pytest.mark.parametrize("alignment", [None, 64, 0])
def test_a_file_that_ends_before_its_last_tensor_is_rejected(tmp_path: Path, alignment: int | None) -> None:
    cut, whole = tmp_path / "cut.gguf", with_tensors("<", 0, 64, alignment=alignment) + bytes(65)
    cut.write_bytes(whole)
    assert read_metadata(cut)["B"] == 200
    cut.write_bytes(whole[:-1])
    with pytest.raises(LocalModelError, match="it ends before its last tensor"):
        read_metadata(cut)


def test_lists_in_lists_without_end_are_rejected(tmp_path: Path) -> None:
    nested = struct.pack("<IQ", 9, 1) * 10_000
    body = struct.pack("<Q", 1) + b"a" + struct.pack("<I", 9) + nested
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + body)
    with pytest.raises(LocalModelError, match="a value of the type 9"):
        read_metadata(tmp_path / "a.gguf")


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
def test_what_is_no_gguf_file_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(LocalModelError, match=r"bad\.gguf cannot be read as a GGUF model file: .+"):
        read_metadata(path)


def test_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match=r"There is no file .*nothing\.gguf"):
        read_metadata(tmp_path / "nothing.gguf")
