"""Files that operations write: complete, or not at all. They contain conversations, so only the owner can read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class OperationError(Exception):
    """The operation cannot be done. Its text says why, and what the operator can do."""


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields the path of a draft, which is synced to disk and renamed to `path` at the end. `path` must not exist.

    OperationError: it exists, or its folder cannot be written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    _require_none(path)
    try:
        draft.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        raise OperationError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        yield draft
        _sync(draft)
        _require_none(path)
        draft.rename(path)
        _sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _require_none(path: Path) -> None:
    if path.exists():
        raise OperationError(f"{path} exists already. Move it away first.")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
