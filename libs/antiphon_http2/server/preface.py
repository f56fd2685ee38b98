"""The bytes with which a client begins: 24 fixed ones, which tell HTTP/2 from everything else."""

from __future__ import annotations

from antiphon_http2.frames import PREFACE


class WrongPreface(Exception):
    """The client does not speak HTTP/2."""


class PrefaceReader:
    def __init__(self) -> None:
        self.is_complete = False
        self._part = b""

    def receive(self, data: bytes) -> bytes:
        """Reads the preface, and returns the bytes behind it. WrongPreface, at the first wrong byte."""
        self._part += data
        if not PREFACE.startswith(self._part[: len(PREFACE)]):
            raise WrongPreface
        if len(self._part) < len(PREFACE):
            return b""
        self.is_complete = True
        rest, self._part = self._part[len(PREFACE) :], b""
        return rest
