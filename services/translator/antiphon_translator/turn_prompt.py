"""The prompt of one turn: its items, tools and wishes about reasoning, written down and encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_core.jsons import parse_array
from antiphon_core.ports.translator import Turn
from antiphon_core.request import Parameters
from antiphon_translator import chat_form, conversation_items, forced_calls, tools, truncation
from antiphon_translator.conversation import Conversation
from antiphon_translator.forced_calls import NOT_FORCED, ForcedCall
from antiphon_translator.generation import Chat
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.parsing.token_parser import PROMPT_TAIL_IDS
from antiphon_translator.served_model import ServedModel
from antiphon_translator.templates import switches
from antiphon_translator.tools import ToolSet


@dataclass(frozen=True, slots=True)
class TurnPrompt:
    """What the model is to read, as ids, and the tools that it may call. `conversation` is what is left of it when the
    oldest turns had to go, `switches` are those of the template."""

    ids: Sequence[int]
    conversation: Conversation
    tools: ToolSet
    switches: Mapping[str, Any]
    forced: ForcedCall = NOT_FORCED
    """How the answer begins, so that the model calls a tool as it has to; not part of `ids`."""

    @classmethod
    def of(
        cls,
        model: ServedModel,
        turn: Turn,
        parameters: Parameters,
        media: TurnMedia | None = None,
        *,
        guides: bool = False,
    ) -> TurnPrompt:
        """`guides`: the engine takes guides.

        InvalidRequest: something in the turn cannot be shown to the model, with its path."""
        history = parse_array(turn.history, field="history")
        given = parse_array(turn.input, field="input")
        declared = [
            *tools.checked(parameters.tools or (), "tools"),
            *tools.declared_in(history, "history"),
            *tools.declared_in(given, "input"),
        ]
        offered = tools.offered(declared, parameters.tool_choice)
        conversation = conversation_items.build(
            instructions=parameters.instructions,
            history=history,
            given=given,
            tools=[tool.as_function() for tool in offered.shown],
            media=media,
        )
        effort = parameters.reasoning.effort if parameters.reasoning is not None else None
        chosen = switches.of_effort(effort, model.prompt.variables, reasons=model.reasons)

        def encode(shown: Conversation) -> Sequence[int]:
            return model.prompt.encode(shown, now_s=turn.created_at, switches=chosen)

        ids = encode(conversation)
        most = model.context_length - truncation.reserve_tokens(model.context_length, parameters.max_output_tokens)
        if parameters.truncation == "auto" and model.prompt_tokens(ids, conversation) > most:
            conversation, ids = truncation.fit(conversation, encode, most_tokens=most, image_tokens=model.image_tokens)
        if not offered.required:
            return cls(ids, conversation, offered, chosen)
        forced = forced_calls.of(model.syntax.literal, offered, _tail(model, ids), guides=guides)
        return cls(ids, conversation, offered, chosen, forced)

    def answers_at_once(self, model: ServedModel) -> bool:
        """Whether nothing but an answer can come first: neither reasoning nor a call."""
        if self.tools.callable:
            return False
        return not model.reasons or model.syntax.literal.answers_at_once(_tail(model, self.ids))

    def text(self, model: ServedModel, turn: Turn) -> str:
        """The prompt for an engine that takes text. InvalidRequest: see `PromptEncoder.write`."""
        return model.prompt.write(self.conversation, now_s=turn.created_at, switches=self.switches) + self.forced.begun

    @property
    def images(self) -> tuple[bytes, ...]:
        """The images that are left, in the order of the prompt."""
        return tuple(image.content for image in self.conversation.images)

    def chat(self) -> Chat:
        """The prompt for an engine that takes a conversation."""
        return chat_form.of_conversation(self.conversation, self.tools, self.switches)


def _tail(model: ServedModel, ids: Sequence[int]) -> str:
    return model.tokenizer.decode(ids[-PROMPT_TAIL_IDS:])


def count(model: ServedModel, turn: Turn, media: TurnMedia | None = None) -> int:
    """Tokens in the prompt of a turn. InvalidRequest, as `TurnPrompt.of`."""
    prompt = TurnPrompt.of(model, turn, Parameters.parse(turn.request), media)
    return model.prompt_tokens(prompt.ids, prompt.conversation)
