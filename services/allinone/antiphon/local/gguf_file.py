"""Reads the metadata of a GGUF file: the header of key-value pairs before the tensors, and nothing of the tensors.

The file comes from a user, so every length in it is checked against the file's end before it is believed. Reading is
strict and small on purpose: the vocabulary of a large model takes some tens of milliseconds.
"""

import mmap
import struct
from collections.abc import Callable
from pathlib import Path

from antiphon.local.errors import LocalModelError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
KEYS_MAX = 65_536
NESTING_MAX = 4

Value = bool | int | float | str | list["Value"]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


def read_metadata(path: Path) -> dict[str, Value]:
    """All key-value pairs of the file. Raises LocalModelError when it is not a readable GGUF file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).metadata()
    except FileNotFoundError:
        raise LocalModelError(f"There is no file {path}.") from None
    except (OSError, ValueError, struct.error) as error:
        raise LocalModelError(f"{path} cannot be read as a GGUF model file: {error}.") from error


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._offset = 0

    def metadata(self) -> dict[str, Value]:
        if self._take(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin with the letters GGUF")
        version, _tensors, keys = self._number("I"), self._number("Q"), self._number("Q")
        if version not in VERSIONS:
            raise ValueError(f"its format version is {version}, known are {VERSIONS}")
        if keys > KEYS_MAX:
            raise ValueError(f"it claims {keys} metadata keys")
        return {self._string(): self._value(int(self._number("I")), 0) for _ in range(int(keys))}

    def _value(self, kind: int, nesting: int) -> Value:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(nesting)
        return self._number(_format(kind))

    def _array(self, nesting: int) -> list[Value]:
        kind, count = int(self._number("I")), int(self._number("Q"))
        if nesting >= NESTING_MAX:
            raise ValueError("its arrays are nested too deeply")
        if kind in (_STRING, _ARRAY):
            element: Callable[[], Value] = self._string if kind == _STRING else lambda: self._array(nesting + 1)
            self._need(count)  # every element takes at least a byte
            return [element() for _ in range(count)]
        packed = struct.Struct(f"<{_format(kind)}")
        return [value for (value,) in packed.iter_unpack(self._take(packed.size * count))]

    def _string(self) -> str:
        return self._take(int(self._number("Q"))).decode("utf-8", "replace")

    def _number(self, code: str) -> bool | int | float:
        packed = struct.Struct(f"<{code}")
        value: bool | int | float = packed.unpack(self._take(packed.size))[0]
        return value

    def _take(self, size: int) -> bytes:
        self._need(size)
        start, self._offset = self._offset, self._offset + size
        return self._data[start : self._offset]

    def _need(self, size: int) -> None:
        if size > len(self._data) - self._offset:
            raise ValueError(f"it ends too early, {size} bytes are missing at offset {self._offset}")


def _format(kind: int) -> str:
    if kind not in _NUMBERS:
        raise ValueError(f"it holds a value of unknown type {kind}")
    return _NUMBERS[kind]
