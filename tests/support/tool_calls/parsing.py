"""A family with a single syntax, for the unit tests of that syntax."""

from __future__ import annotations

from antiphon_core.jsons import Object
from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Bare, Family, Grammar
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.reading import CallSyntax
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Segment, Unread
from tests.support.tool_calls.outcomes import cuts, joined


def family_of(*calls: CallSyntax, bare: Bare | None = None, grammar: Grammar | None = None) -> Family:
    return Family(name="one", calls=calls, bare=bare, grammar=grammar)


def parsed(
    family: Family | str,
    text: str,
    *,
    schemas: dict[str, Object] | None = None,
    tail: str = "",
    cut_off: bool = False,
) -> list[Segment]:
    """Parses a text into its segments without the notes of what is unread, and requires equal segments however the text
    is cut."""
    segments = parsed_with_notes(family, text, schemas=schemas, tail=tail, cut_off=cut_off)
    return joined(each for each in segments if not isinstance(each, Unread))


def notes(family: Family | str, text: str, *, schemas: dict[str, Object] | None = None, tail: str = "") -> list[str]:
    """The causes of what is unread in a text."""
    segments = parsed_with_notes(family, text, schemas=schemas, tail=tail)
    return [each.cause for each in segments if isinstance(each, Unread)]


def parsed_with_notes(
    family: Family | str,
    text: str,
    *,
    schemas: dict[str, Object] | None = None,
    tail: str = "",
    cut_off: bool = False,
) -> list[Segment]:
    table = families.load(family) if isinstance(family, str) else family
    results = []
    for pieces in cuts(text, at_random=3):
        parser = OutputParser(table, schemas=schemas if schemas is not None else {"f": {}}, prompt_tail=tail)
        segments = [segment for piece in pieces for segment in parser.feed("".join(piece))]
        results.append(joined([*segments, *parser.finish(cut_off=cut_off)]))
    assert all(result == results[0] for result in results)
    return results[0]


def call(name: str, arguments: str, *, is_complete: bool = True, model_id: str | None = None) -> list[Segment]:
    told = [Arguments(arguments)] if arguments else []
    return [CallBegin(name, model_id), *told, CallEnd(is_complete)]
