"""Joins the pieces in which chat completions servers send calls.

A standard server numbers its calls by `index`, and names a call in its first piece only. Others do as they like, and no
call may be lost for it:

    Gemini leaves out the index or sends null; Ollama sends 0 for all calls (ollama/ollama#15457)
    proxies repeat name and id in each piece, send a name in pieces, or count the pieces
    some give the first piece of a call another index than the rest (agno-agi/agno#8880)
    some send `{}` first and the arguments behind it, arguments as an object, or JSON within a JSON text
    some end with a piece that repeats the whole call

A call is *closed* when its arguments are a whole JSON value, and *proven* when no later piece can change it: `{}` may
still be followed by the arguments themselves.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from antiphon_core.limits import OUTPUT_ITEMS_MAX
from antiphon_translator.engines.lenient_json import Halves
from antiphon_translator.parsing.json_scan import JsonScan


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a call, as the server sent it; `arguments` is a piece of JSON text."""

    index: int | None = None
    id: str | None = None
    name: str = ""
    arguments: str = ""


class Call:
    """A call, with the arguments that were not passed on yet. `has_place`: it has its place among the items.
    `is_ended`: it was passed on whole, and takes nothing more."""

    def __init__(self, piece: CallPiece) -> None:
        self.index = piece.index
        self.id: str | None = None
        self.name = ""
        self.has_place = False
        self.is_ended = False
        self._written: list[str] = []  # all arguments, to compare with a piece that repeats them
        self._untaken: list[str] = []
        self._scan = JsonScan()
        self._halves = Halves()
        self._begins_empty = False
        """The server sent `{}` first. It is written at the end, unless other arguments follow it."""
        self._is_held = False
        """The arguments are no object as they are: they are read when they are whole."""

    @property
    def has_arguments(self) -> bool:
        return bool(self._written) or self._begins_empty

    @property
    def is_closed(self) -> bool:
        return self._scan.is_done or (self._begins_empty and not self._written)

    @property
    def is_open(self) -> bool:
        """Whether the arguments have begun, and are no whole value."""
        return bool(self._written) and not self.is_closed

    @property
    def is_held(self) -> bool:
        """Whether the arguments are kept until they are whole."""
        return self._is_held and not self._scan.is_done

    @property
    def is_proven(self) -> bool:
        return bool(self.name) and self._scan.is_done

    @property
    def arguments(self) -> str:
        return "".join(self._written) or ("{}" if self._begins_empty else "")

    def add(self, piece: CallPiece, names: Collection[str]) -> None:
        """Adds a piece that belongs to this call. `names` are those of the functions that the request offers."""
        self.id = self.id or piece.id
        if piece.name and not self.has_arguments:
            self.name = _name_of_pieces(self.name, piece.name, names)
        elif piece.name and not self.name:
            self.name = piece.name
        if piece.arguments and not (self.is_closed and piece.name and piece.arguments == self.arguments):
            self._add_arguments(self._halves.feed(piece.arguments))

    def _add_arguments(self, text: str) -> None:
        if not self._written:
            text = text.lstrip()
            if not text:
                return
            if text.rstrip() == "{}" and not self._begins_empty:
                self._begins_empty = True
                return
            self._is_held = not text.startswith("{")
        self._written.append(text)
        self._untaken.append(text)
        if not self._scan.is_done:
            self._scan.feed(text, 0, ended=False)

    def take(self) -> str:
        """The arguments since the last time. Those that are no object as they are come when they are whole."""
        if self.is_held:
            return ""
        return self._read(self._take_all())

    def take_rest(self, *, is_cut_off: bool) -> str:
        """The arguments that are left. Many servers send none for a function without parameters: it is called with an
        empty object, unless the output was cut off before its end."""
        if not self._written and (self._begins_empty or not is_cut_off):
            return "{}"
        return self._read(self._take_all() + self._halves.feed("", is_last=True))

    def _take_all(self) -> str:
        untaken, self._untaken = "".join(self._untaken), []
        return untaken

    def _read(self, text: str) -> str:
        """The object that held arguments stand for: JSON within a JSON text, or one of the ways to write that there are
        none. Any other arguments stay as they are."""
        if not self._is_held:
            return text
        if text.strip() in ("null", "None", "[]", '""'):
            return "{}"
        if not text.lstrip().startswith('"'):
            return text  # not parsed: it may have a million brackets
        try:
            inner = json.loads(text)
        except ValueError:
            return text
        return inner if isinstance(inner, str) and inner.lstrip().startswith("{") else text


class CallTable:
    """The calls of one stream, by index and id. `names` are those of the functions that the request offers. `is_full`:
    a piece began one more call than a response may have, and was dropped."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.is_full = False
        self._names = names
        self._left = OUTPUT_ITEMS_MAX
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._last: Call | None = None

    def add(self, piece: CallPiece) -> Call | None:
        """Adds a piece to its call, which is returned; a new one if the piece begins it. None: the piece says
        nothing."""
        if not (piece.name or piece.id or piece.arguments):
            return None
        call = self._find_call(piece)
        if call is None or self._begins_another(call, piece):
            if not self._left:
                self.is_full = True
                return None
            self._left -= 1
            call = Call(piece)
        if piece.index is not None:
            self._by_index[piece.index] = call
        if piece.id is not None:
            self._by_id.setdefault(piece.id, call)
        self._last = call
        if not call.is_ended:
            call.add(piece, self._names)
        return call

    def _find_call(self, piece: CallPiece) -> Call | None:
        """The call that the piece may belong to."""
        named = self._by_id.get(piece.id) if piece.id is not None else None
        if piece.index is None:
            return named or self._last
        numbered = self._by_index.get(piece.index)
        if named is not None and not (numbered is not None and numbered.id == piece.id):
            # The server counts its pieces, or gives the first piece of a call another index than the others.
            return named if not piece.name or (piece.name == named.name and named.is_open) else numbered
        if numbered is None and not piece.name and piece.id is None and self._last is not None:
            return None if self._last.is_closed else self._last
        return numbered

    def _begins_another(self, call: Call, piece: CallPiece) -> bool:
        """Whether the piece begins another call than the one that has its index or its id."""
        if not piece.name:
            return False
        if piece.id is not None and call.id is not None and piece.id != call.id:
            return True
        if piece.index is None and piece.id is None:
            return piece.name != call.name or not call.is_open
        if not call.has_arguments:
            return self._are_two_names(call.name, piece.name)
        if call.name and piece.name != call.name:
            return True
        if not call.is_closed or not piece.arguments.strip():
            return False
        return piece.id is None or piece.arguments != call.arguments

    def _are_two_names(self, first: str, second: str) -> bool:
        return first != second and {first, second} <= set(self._names) and first + second not in self._names


def _name_of_pieces(so_far: str, piece: str, names: Collection[str]) -> str:
    """The name so far with its next piece, which may repeat the name so far."""
    return piece if piece.startswith(so_far) and (so_far + piece) not in names else so_far + piece
