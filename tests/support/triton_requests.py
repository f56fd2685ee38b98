"""Reads an engine's requests to Triton."""

from __future__ import annotations

import struct
from typing import Any

_FORMATS = {"INT32": "i", "UINT64": "Q", "FP32": "f", "BOOL": "?"}


def sent(message: Any) -> dict[str, tuple[list[int], list[Any]]]:
    """Returns each input of a ModelInferRequest as (shape, values)."""
    return {
        tensor.name: (list(tensor.shape), _values(tensor.datatype, raw))
        for tensor, raw in zip(message.inputs, message.raw_input_contents, strict=True)
    }


def _values(data_type: str, raw: bytes) -> list[Any]:
    if data_type != "BYTES":
        return [value for (value,) in struct.iter_unpack(f"<{_FORMATS[data_type]}", raw)]
    texts, at = [], 0
    while at < len(raw):
        (length,) = struct.unpack_from("<I", raw, at)
        texts.append(raw[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return texts
