"""Messages between a supervisor and its worker processes: an assignment on the worker's standard input, one report on
its standard output. Both ends are the same release, and no other process holds the pipes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import BinaryIO

from antiphon.settings import Settings
from antiphon_core.jsons import dumps, loads
from antiphon_core.sealing_keys import SealingKeys


@dataclass(frozen=True, slots=True)
class Assignment:
    """The targets and settings of a worker process. `sealing_keys` are the same for all workers, which use them if the
    settings name no keys file."""

    number: int
    targets: tuple[str, ...]
    settings: Settings
    sealing_keys: SealingKeys

    def encode(self) -> bytes:
        return pickle.dumps(self)

    @classmethod
    def read(cls, pipe: BinaryIO) -> Assignment:
        found: Assignment = pickle.load(pipe)  # noqa: S301 - written by the parent process
        return found


@dataclass(frozen=True, slots=True)
class Ready:
    """The report of a worker that is ready. `addresses` are the lines with its addresses for the banner."""

    addresses: str

    def line(self) -> bytes:
        return dumps({"addresses": self.addresses}) + b"\n"


@dataclass(frozen=True, slots=True)
class Failed:
    """The report of a worker that could not start and ends with `status`."""

    message: str
    status: int

    def line(self) -> bytes:
        return dumps({"message": self.message, "status": self.status}) + b"\n"


def parse_report(line: bytes) -> Ready | Failed:
    found = loads(line)
    return Ready(**found) if "addresses" in found else Failed(**found)
