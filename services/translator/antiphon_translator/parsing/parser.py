"""One model output, from text to segments: reasoning, text and calls, by the table of the model's family."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core.jsons import Object
from antiphon_translator.parsing.alphabet import has_token
from antiphon_translator.parsing.cursor import Cursor, Markers, Reader
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.reading import CallSyntax, Malformed, Reading
from antiphon_translator.parsing.segments import Output, Segment
from antiphon_translator.parsing.traced import Watch, traced


class OutputParser:
    """Used once. `prompt_tail` is the end of the prompt: what the template began, the model goes on with.
    `schemas` are the parameters of the tools that may be called; None means that calls are just text."""

    def __init__(
        self,
        family: Family,
        *,
        schemas: Mapping[str, Object] | None = None,
        prompt_tail: str = "",
        watch: Watch | None = None,
    ) -> None:
        """`watch` is told all text that is read; the texts that come out then know their places in it."""
        self._family = family
        self._has_tools = schemas is not None
        self._in_reasoning = family.begins_in_reasoning(prompt_tail)
        self._cursor, self._out = (Cursor(), Output()) if watch is None else traced(watch)
        self._reading = Reading(self._cursor, self._out, schemas or {})
        self._steps = self._read(prompt_tail)
        self._ended = False
        self._step()

    @property
    def in_reasoning(self) -> bool:
        """Whether what comes next is reasoning, as far as is known."""
        return self._in_reasoning if self._family.grammar is None else self._out.in_reasoning

    def feed(self, text: str) -> list[Segment]:
        self._cursor.feed(text)
        self._step()
        return self._out.take()

    def finish(self, *, cut_off: bool = False) -> list[Segment]:
        """What is left at the end. A call that is open is incomplete. `cut_off`: the model would have gone on."""
        self._cursor.finish(cut_off=cut_off)
        self._step()
        self._out.finish()
        return self._out.take()

    def _step(self) -> None:
        if not self._ended:
            self._ended = next(self._steps, self) is self

    # ---- readers ----

    def _read(self, prompt_tail: str) -> Reader[None]:
        family = self._family
        if family.grammar is not None:
            yield from family.grammar.read(self._reading, prompt_tail)
            return
        if family.bare is not None and self._has_tools and not self._in_reasoning:
            yield from family.bare.read(self._reading)
        while (marker := (yield from self._read_run())) is not None:
            if marker in family.openers:
                yield from self._read_calls(family.openers[marker], marker)
            elif marker in family.reasoning_open or marker in family.reasoning_close:
                self._in_reasoning = marker in family.reasoning_open

    def _read_run(self) -> Reader[str | None]:
        """Text or reasoning, up to the next marker."""
        family = self._family
        if self._in_reasoning:
            markers = family.in_reasoning if self._has_tools else family.without_calls
            return (yield from self._cursor.until(markers, self._out.reasoning))
        markers = family.in_text if self._has_tools else family.without_calls
        return (yield from self._cursor.until(markers, self._out.text))

    def _read_calls(self, syntax: CallSyntax, opener: str) -> Reader[None]:
        if opener in syntax.open:
            yield from self._read_call(syntax, opener)
            return
        self._in_reasoning = False
        markers = Markers((*syntax.open, *syntax.section_close))
        while (opener := (yield from self._cursor.until(markers, self._out.drop)) or "") in syntax.open:
            yield from self._read_call(syntax, opener, in_section=True)

    def _read_call(self, syntax: CallSyntax, opener: str, *, in_section: bool = False) -> Reader[None]:
        self._cursor.mark()
        try:
            yield from syntax.read(self._reading)
        except Malformed:
            raw = opener + self._cursor.unmark() if self._cursor.is_marked else ""
            if raw and not in_section and self._is_text(raw):
                self._give_back(raw)
                return
            if self._out.in_call:
                self._out.break_call()
            self._out.drop(raw)
            yield from self._leave(syntax, in_section=in_section)
        self._cursor.unmark()
        self._in_reasoning = False

    def _is_text(self, raw: str) -> bool:
        """Whether what began like a call is shown as the text that it is: without control tokens, and not a call that
        was cut off; an opener that is a word may well be the last one of an answer."""
        return not has_token(raw) and (not self._cursor.is_at_end or raw.strip().isidentifier())

    def _give_back(self, raw: str) -> None:
        if self._in_reasoning:
            self._out.reasoning(raw)
        else:
            self._out.text(raw)

    def _leave(self, syntax: CallSyntax, *, in_section: bool) -> Reader[None]:
        """Goes behind the end of a call that could not be read, or to the next one."""
        ends = (*syntax.close, *syntax.section_close)
        end = yield from self._cursor.until(Markers((*ends, *syntax.open, *syntax.section_open)), self._out.drop)
        if end is not None and (end not in ends or (in_section and end in syntax.section_close)):
            self._cursor.back(end)
