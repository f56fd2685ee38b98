"""Writes the metadata part of small GGUF files for tests."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

Value = bool | int | float | str | Sequence[str] | Sequence[int] | Sequence[float]


def write_gguf(path: Path, metadata: Mapping[str, Value], *, version: int = 3) -> Path:
    """Writes a GGUF file without tensors and returns its path."""
    body = b"".join(_string(key) + _typed(value) for key, value in metadata.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, len(metadata)) + body)
    return path


def _typed(value: Value) -> bytes:
    if isinstance(value, str | bool | int | float):
        kind, data = _scalar(value)
        return struct.pack("<I", kind) + data
    elements = [_scalar(element) for element in value]
    kind = elements[0][0] if elements else 8
    return struct.pack("<IIQ", 9, kind, len(elements)) + b"".join(data for _, data in elements)


def _scalar(value: str | bool | int | float) -> tuple[int, bytes]:
    match value:
        case str():
            return 8, _string(value)
        case bool():
            return 7, struct.pack("<?", value)
        case int():
            return 5, struct.pack("<i", value)
        case float():
            return 6, struct.pack("<f", value)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
