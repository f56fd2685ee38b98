"""Parses the text of one model output into segments (reasoning, text, calls) by the table of the model's family.

An opener begins a call only if the text behind it has the syntax of one. Until that is known the text is held back, up
to GIVE_BACK_CHARS_MAX of it. If it is no call, the opener becomes text, and the text behind it is read again, so that
every other marker in it keeps its meaning. If it is certainly a call, and cannot be read, it is shown as an incomplete
call or as text (`Reading.show_unread`): nothing that a model writes vanishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from antiphon_core.jsons import Object
from antiphon_translator.parsing import mention
from antiphon_translator.parsing.cursor import Cursor, Malformed, Reader
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import CallSyntax, Reading
from antiphon_translator.parsing.segments import Output, Reasoning, Segment, Text
from antiphon_translator.parsing.traced import Watch, trace

Run = tuple[Markers, type[Text | Reasoning]]
"""The markers that end a run of text, and the segments that its text becomes."""

_NOTHING = Markers(())
_BRACKETS = ("}", "]")


class OutputParser:
    """The parser of one output. `prompt_tail` is the end of the prompt, because the model may go on with reasoning that
    the chat template opened. `schemas` are the parameters of the tools that may be called; with None, calls are text.
    """

    def __init__(
        self,
        family: Family,
        *,
        schemas: Mapping[str, Object] | None = None,
        prompt_tail: str = "",
        stops: Sequence[str] = (),
        watch: Watch | None = None,
    ) -> None:
        """The output ends at the first of `stops` in its texts. `watch` is called with all text that is read; text
        segments then have their positions in it (traced.py)."""
        self._family = family
        self._has_tools = schemas is not None
        self._in_reasoning = family.begins_in_reasoning(prompt_tail)
        self._cursor, self._out = (Cursor(), Output(stops)) if watch is None else trace(watch, stops)
        self._reading = Reading(self._cursor, self._out, schemas or {}, family.markup)
        self._cursor.begin_with(next(filter(prompt_tail.endswith, family.carried), ""))
        self._steps = self._read(prompt_tail)
        self._shown_openers = 0
        """How many openers were shown as text. As many closers are shown as text, too."""
        self._cursor.step(self._steps)

    @property
    def is_in_reasoning(self) -> bool:
        """Whether the next text is reasoning, as far as the text so far tells."""
        return self._in_reasoning if self._family.grammar is None else self._out.is_in_reasoning

    @property
    def is_stopped(self) -> bool:
        """Whether a stop was found in a text."""
        return self._out.is_stopped

    @property
    def run(self) -> Run | None:
        """The run of text or reasoning that is being read; None if the next text may not come out as it is."""
        found = self._cursor.run
        if found is None:
            return None
        markers, emit = found
        segment = self._out.run_of(emit)
        return (markers, segment) if segment is not None else None

    def emit(self, text: str) -> list[Segment]:
        """Emits text of the `run`, in which stops are searched. It has no beginning of the run's markers. The text is
        not read: `skip` it before other text is fed."""
        self._out.add_to_run(text)
        return self._out.take()

    def may_stop_in(self, text: str) -> bool:
        """Whether more text of the `run` might complete one of the stops."""
        return self._out.may_stop_in(text)

    def skip(self, text: str) -> None:
        """Takes text of the `run` as read and emitted. It has no beginning of the run's markers, and ends in no white
        space unless it went through `emit`."""
        self._cursor.skip(text)

    def feed(self, text: str) -> list[Segment]:
        self._cursor.feed(text)
        self._cursor.step(self._steps)
        return self._out.take()

    def finish(self, *, cut_off: bool = False) -> list[Segment]:
        """Ends the output and returns the last segments. A call that is still open becomes incomplete. `cut_off`: the
        output ended before the model was done."""
        self._cursor.finish(cut_off=cut_off)
        self._out.is_cut_off = cut_off
        self._cursor.step(self._steps)
        self._out.finish()
        return self._out.take()

    # ---- readers ----

    def _read(self, prompt_tail: str) -> Reader[None]:
        family = self._family
        if family.grammar is not None:
            yield from family.grammar.read(self._reading, prompt_tail)
            return
        if not self._in_reasoning:
            yield from self._cursor.one_of(family.empty_reasoning)
            yield from self._read_bare()
        while (marker := (yield from self._read_run())) is not None:
            if marker in family.openers and self._has_tools:
                yield from self._read_calls(marker)
            elif (yield from self._is_mention(marker)):
                self._emit(marker)
                self._shown_openers += marker in family.reasoning_open
            elif self._shown_openers and not self._in_reasoning and marker in family.closers:
                self._emit(marker)
                self._shown_openers -= 1
            elif marker in family.reasoning_open or marker in family.reasoning_close:
                self._in_reasoning = marker in family.reasoning_open
                self._shown_openers = 0
                if not self._in_reasoning:
                    self._out.end_reasoning()
                    yield from self._read_bare()

    def _read_run(self) -> Reader[str | None]:
        """Emits text or reasoning up to the next marker, and returns the marker."""
        family = self._family
        if self._in_reasoning:
            markers = family.in_reasoning if self._has_tools else family.without_calls
            return (yield from self._cursor.until(markers, self._out.reasoning))
        markers = family.in_text if self._has_tools else family.without_calls
        return (yield from self._cursor.until(markers, self._out.text))

    def _emit(self, text: str) -> None:
        if self._is_in_prompt:
            return
        if self._in_reasoning:
            self._out.reasoning(text)
        else:
            self._out.text(text)

    @property
    def _is_in_prompt(self) -> bool:
        """Whether the text that was read last is from the prompt."""
        return self._cursor.position <= 0

    def _is_mention(self, marker: str) -> Reader[bool]:
        """Whether a marker is only mentioned. A closer of reasoning is a mention only in quotes: if the end of the
        reasoning were missed, the whole answer would be reasoning."""
        ends_reasoning = self._in_reasoning and marker in self._family.reasoning_close
        return (yield from mention.is_mentioned(self._cursor, marker, strictly=ends_reasoning))

    def _read_bare(self) -> Reader[None]:
        """Reads a call that no marker opens, at the beginning of an answer."""
        if self._family.bare is None or not self._has_tools:
            return
        self._reading.takes_offered_only = True
        self._reading.name = None
        self._cursor.mark()
        try:
            yield from self._family.bare.read(self._reading)
        except Malformed:
            if self._cursor.is_marked:
                self._cursor.rewind()
                self._cursor.unmark()
            else:
                yield from self._end_broken_call(self._family.calls)

    def _read_calls(self, opener: str) -> Reader[None]:
        """Reads the calls behind an opener; if there are none, the opener is text or markup (`_give_back`)."""
        before = self._cursor.behind(opener)
        in_prose = mention.follows_a_word(before) or mention.follows_a_quote(before)
        if self._in_reasoning and in_prose and self._family.drafts_calls:
            return self._emit(opener)
        self._reading.takes_offered_only = self._in_reasoning or in_prose
        was_cut_off = False
        self._reading.name = None
        self._cursor.mark()
        for syntax in self._family.openers[opener]:
            try:
                yield from self._first_call(syntax, opener, before)
            except Malformed:
                if self._cursor.is_marked:
                    was_cut_off |= self._cursor.is_at_end and not "".join(self._reading.noise).strip()
                    self._cursor.rewind()
                    self._reading.noise.clear()
                    continue
                yield from self._end_broken_call([syntax], opener)
            yield from self._behind_calls(syntax, in_section=opener not in syntax.open)
            return
        yield from self._give_back(opener, before, was_cut_off=was_cut_off)

    def _first_call(self, syntax: CallSyntax, opener: str, before: str) -> Reader[None]:
        if opener not in syntax.open:
            found = yield from self._cursor.until(self._family.ends_of_noise, self._reading.noise.append)
            is_noisy = bool("".join(self._reading.noise).strip())
            if found not in syntax.open or (is_noisy and mention.follows_a_word(before)):
                raise Malformed
            if not is_noisy:
                self._reading.noise.clear()
        yield from syntax.read(self._reading)

    def _give_back(self, opener: str, before: str, *, was_cut_off: bool) -> Reader[None]:
        """Handles an opener without a call; the mark is behind the opener. In reasoning, in a sentence, or as a
        mention, the opener becomes text. Elsewhere the call is shown as unread in two cases: the output ended within
        the call, or the call's closer comes, and then only another call or the end of the output."""
        behind = yield from self._cursor.peek(mention.AHEAD_CHARS)
        is_text = self._in_reasoning or self._shown_openers > 0 or mention.is_mention(before, behind)
        is_text = is_text or mention.follows_a_word(before) or mention.follows_a_quote(before)
        is_text = is_text or (self._is_in_prompt and not self._cursor.is_cut_off)
        if not is_text and opener in self._family.ignored:
            self._cursor.unmark()
        elif not is_text and was_cut_off and not opener.isidentifier():
            self._cursor.unmark()
            written = [opener]
            yield from self._cursor.until(_NOTHING, written.append)
            self._reading.show_unread("".join(written))
        elif is_text or not (yield from self._unread(self._ends(self._family.openers[opener]), opener, is_last=True)):
            self._cursor.unmark()
            self._emit(opener)
            self._shown_openers += 1

    def _behind_calls(self, syntax: CallSyntax, *, in_section: bool) -> Reader[None]:
        """Reads the closers behind a call, and the further calls of its section. Noise between the calls of a section
        is left out; noise that no call and no closer of the section follows is text."""
        self._in_reasoning = self._reading.takes_offered_only = False
        while True:
            yield from self._closers([syntax], with_sections=not in_section)
            if not in_section:
                return
            self._reading.name = None
            self._cursor.mark()
            try:
                found = yield from self._cursor.until(self._family.ends_of_noise, self._reading.noise.append)
                if found in syntax.section_close:
                    self._reading.commit()
                    in_section = False
                elif found in syntax.open:
                    yield from syntax.read(self._reading)
                else:
                    raise Malformed
            except Malformed:
                self._reading.noise.clear()
                if not self._cursor.is_marked:
                    yield from self._end_broken_call([syntax])
                    continue
                self._cursor.rewind()
                if not (yield from self._unread(self._ends([syntax]), "")):
                    self._cursor.unmark()
                    return

    def _closers(self, syntaxes: Iterable[CallSyntax], *, with_sections: bool) -> Reader[None]:
        """Moves behind any number of closers."""
        closers = {each for syntax in syntaxes for each in syntax.close}
        if with_sections:
            closers.update(each for syntax in syntaxes for each in syntax.section_close)
        ordered = sorted(closers, key=len, reverse=True)
        yield from self._cursor.spaces()
        yield from self._brackets(ordered)
        while (yield from self._cursor.one_of(ordered)) is not None:
            yield from self._cursor.spaces()

    def _brackets(self, closers: Sequence[str]) -> Reader[None]:
        """Moves behind superfluous closing brackets, if a closer follows them."""
        if (yield from self._cursor.peek()) not in _BRACKETS or not closers:
            return
        self._cursor.mark()
        try:
            while (yield from self._cursor.peek()) in _BRACKETS and not self._cursor.is_at_end:
                yield from self._cursor.take(1)
                yield from self._cursor.spaces()
            if self._cursor.is_at_end or not (yield from self._cursor.comes_next(closers)):
                self._cursor.rewind()
            self._cursor.unmark()
        except Malformed:
            self._cursor.rewind()
            self._cursor.unmark()

    def _end_broken_call(self, syntaxes: Sequence[CallSyntax], opener: str = "") -> Reader[None]:
        """Ends a call that could not be read to its end. The rest up to its closer or to the next call becomes a part
        of it; if neither comes, the rest is read as text."""
        held = self._cursor.text_behind_mark  # the text of a call that is too long to be read again
        written = [opener, held] if held else []
        self._cursor.mark()
        end = yield from self._read_to(self._ends(syntaxes).union(self._family.openers), written)
        text = "".join(written)
        if self._out.is_in_call:
            self._out.arguments(text if text.strip() else "")
            self._out.break_call()
        elif text.strip():
            self._reading.show_unread(text)
        self._cursor.unmark()
        yield from self._pass(end)

    @staticmethod
    def _ends(syntaxes: Iterable[CallSyntax]) -> set[str]:
        return {end for syntax in syntaxes for end in (*syntax.close, *syntax.section_close)}

    def _unread(self, ends: Set[str], opener: str, *, is_last: bool = False) -> Reader[bool]:
        """Shows an opener and the text up to the first of `ends` as unread. Returns False and goes back to the mark if
        another marker comes first or, with `is_last`, if text follows."""
        written = [opener]
        end = yield from self._read_to(ends, written, opener, is_last=is_last)
        if end is None:
            return False
        text = "".join(written)
        if text.strip():
            self._reading.show_unread(text)
        self._cursor.unmark()
        yield from self._pass(end)
        return True

    def _read_to(
        self, ends: Set[str], written: list[str], opener: str = "", *, is_last: bool = False
    ) -> Reader[str | None]:
        """Appends the text up to the first of `ends`, and returns that end; the cursor stands before it. Returns None
        and goes back to the mark if another marker comes first or, with `is_last`, if text follows."""
        family, read = self._family, list[str]()
        try:
            markers = family.ends_of_sections[opener] if opener else family.ends_of_calls
            found = (yield from self._cursor.until(markers, read.append)) if ends else None
            if found is None or found not in ends:
                raise Malformed
            if is_last and not (yield from self._cursor.comes_next((*ends, *family.openers, *family.ignored))):
                raise Malformed
            self._cursor.unmark()
        except Malformed:
            self._cursor.rewind()
            return None
        self._cursor.back(found)
        written += read
        return found

    def _pass(self, end: str | None) -> Reader[None]:
        """Moves behind the closer at which a call ended. The opener of the next call is read later."""
        if end is not None and end not in self._family.openers:
            yield from self._cursor.literal(end)
