"""Reads the oracle's conversations and outputs with our own code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon_core.request.body import Parameters
from antiphon_translator.conversation import Conversation
from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import ChatTemplate
from antiphon_translator.templates import switches
from antiphon_translator.templates.harmony import HarmonyTemplate
from antiphon_translator.turn.turn_prompt import TurnPrompt
from tests.support.harmony.conversations import NOW_S, Case
from tests.support.harmony.outputs import PROMPT, SCHEMAS, Part, parts_of
from tests.support.served_models import model
from tests.support.tool_calls.vocabularies import Vocabulary

FAMILY = "gpt_oss"


def conversation(case: Case) -> Conversation:
    """Returns the conversation for the model. The vocabulary that encodes it does not matter."""
    return TurnPrompt.of(model(), case.turn, Parameters.parse(case.turn.request)).conversation


def prompt(case: Case, template: ChatTemplate | None = None) -> str:
    writer = template or HarmonyTemplate()
    asked = Parameters.parse(case.turn.request).reasoning
    effort = asked.effort if asked is not None else None
    chosen = switches.of_effort(effort, writer.variables, reasons=True)
    return writer.render(conversation(case), now_s=NOW_S, switches=chosen)


def parts(vocabulary: Vocabulary, pieces: Iterable[Sequence[int]], *, cut_off: bool = False) -> list[Part]:
    """Returns the parts that our parser reads from ids of `vocabulary`, piece by piece."""
    syntax = TokenSyntax(families.load(FAMILY), vocabulary.tokenizer)
    parser = TokenParser(syntax, prompt_ids=vocabulary.tokenizer.encode(PROMPT), schemas=SCHEMAS)
    segments = [segment for piece in pieces for segment in parser.feed(piece)]
    return parts_of([*segments, *parser.finish(cut_off=cut_off)])
