"""The prompt of one turn, made of its items, its tools and its reasoning options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

from antiphon_core.errors import ContextLengthExceeded, InvalidRequest
from antiphon_core.jsons import parse_array
from antiphon_core.ports.translator import NO_ITEMS, NO_USAGE, Turn, Usage
from antiphon_core.request.body import Parameters
from antiphon_translator.conversation import Conversation
from antiphon_translator.generation import Level, Prompt, TextPrompt, TokenPrompt
from antiphon_translator.lineage import cache_loss, turn_lineage
from antiphon_translator.lineage.ancestors import NO_ANCESTORS, Ancestors
from antiphon_translator.lineage.cache_loss import Loss
from antiphon_translator.lineage.prompt_digest import prompt_digests
from antiphon_translator.lineage.turn_lineage import TurnLineage
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.models.unseen_model import unmeasured_error
from antiphon_translator.parsing.token_syntax import PROMPT_TAIL_IDS
from antiphon_translator.placement import RootPrefix
from antiphon_translator.prompt import conversation_items, declarations, tools, truncation
from antiphon_translator.prompt.declarations import Declaration
from antiphon_translator.prompt.prompt import EncodedPrompt
from antiphon_translator.prompt.read_history import NOTHING_READ, ReadHistory
from antiphon_translator.prompt.tools import ToolSet
from antiphon_translator.schemas.schema_budget import SchemaBudget, SchemaCost
from antiphon_translator.templates import switches
from antiphon_translator.templates.roles import Roles
from antiphon_translator.turn import chat_form, forced_calls, rejected_item, response_rounds
from antiphon_translator.turn.forced_calls import NOT_FORCED, ForcedCall

_TOKEN_CHARS = 4
"""Characters of a token, where the prompt is not encoded here: of English text."""

Encode = Callable[[Conversation], EncodedPrompt]


@dataclass(frozen=True, slots=True)
class TurnPrompt:
    """The conversation for the model and its tools. `conversation` lacks the turns that truncation dropped. `switches`
    are variables of the template. `tokens` is the part of the context that the prompt takes.

    A server of chat completions renders and encodes its prompt by itself. Then `encoded` is None and `tokens` is an
    upper bound, unless the bound comes near the limit (`_measure`)."""

    conversation: Conversation
    tools: ToolSet
    switches: Mapping[str, Any]
    tokens: int
    encode: Encode
    roles: Roles
    encoded: EncodedPrompt | None = None
    forced: ForcedCall = NOT_FORCED
    """The beginning of the answer, which makes the model call a tool; not part of `ids`."""
    output: Sequence[Any] = ()
    """The items of the response before this round."""
    used: Usage = NO_USAGE
    """The tokens of the rounds before."""
    ancestors: Ancestors = NO_ANCESTORS
    """The earlier turns whose prompts are beginnings of this one; all of them if it is not encoded."""
    round_lineage: bytes = b""
    """The lineage of the round before."""

    @classmethod
    def of(
        cls,
        model: ServedModel,
        turn: Turn,
        parameters: Parameters,
        media: TurnMedia | None = None,
        *,
        level: Level = Level.TOKENS,
        guides: bool = False,
    ) -> TurnPrompt:
        """Builds and measures the prompt of a turn. `level` is the engine's; `guides`: it takes guides.

        InvalidRequest: the turn cannot be shown to the model; the error has the path of the cause."""
        items = _TurnItems.read(model, turn, parameters)
        conversation = items.conversation(model, turn, parameters, media)
        chosen = _switches(model, parameters)
        ancestors = _ancestors_of(model, turn)
        encode = _encoding(model, turn, chosen, ancestors)
        is_exact = level is not Level.CHAT
        path_of = partial(_path_of, turn, parameters, media)
        _require_readable(model.prompt.roles.adapt, conversation, path_of)
        try:
            conversation, tokens, encoded = _measure(model, conversation, encode, parameters, is_exact=is_exact)
        except InvalidRequest as error:
            raise rejected_item.name_item(error, conversation, encode, path_of) from error
        forced = _force_call(model, items.tools, encoded, guides=guides) if items.tools.requires_call else NOT_FORCED
        return cls(
            conversation,
            items.tools,
            chosen,
            tokens,
            encode,
            model.prompt.roles,
            encoded,
            forced,
            items.output,
            turn.used,
            encoded.ancestors if encoded is not None else ancestors,
            turn.round_lineage,
        )

    @property
    def is_floor(self) -> bool:
        """Whether `tokens` is a lower bound, of a prompt that does not fit into the context."""
        return self.encoded is not None and self.encoded.is_floor

    @property
    def ids(self) -> Sequence[int]:
        """The ids of the prompt; empty if it was not encoded, or is longer than the context."""
        return self.encoded.ids if self.encoded is not None else ()

    @property
    def expected_tokens(self) -> int:
        """The number of ids at the beginning of the prompt that an engine should have in its cache."""
        return self.ancestors.expected_tokens(self.ids) if self.ancestors.lineages else 0

    def root(self) -> RootPrefix | None:
        """The beginning that the prompt shares with other conversations: its system message. The number of its tokens
        is an estimate, by its share of the prompt's text where that is known. None: there is no system message."""
        first = self.conversation.messages[0] if self.conversation.messages else None
        if first is None or first.role not in ("system", "developer") or not first.text:
            return None
        if self.encoded is None or not self.encoded.pieces:
            tokens = len(first.text) // _TOKEN_CHARS
        else:
            tokens = self.encoded.tokens * len(first.text) // max(sum(map(len, self.encoded.pieces)), len(first.text))
        key = blake2b(first.text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return RootPrefix(key, tokens)

    def count(self) -> int:
        """The number of ids in the prompt, which may encode it. If the model's template rejects a conversation that its
        server accepted, the upper bound."""
        try:
            return (self.encoded or self.encode(self.conversation)).tokens
        except InvalidRequest:
            return self.tokens

    def remember(self, model: ServedModel, written: Sequence[int]) -> None:
        """Keeps the ids behind the prompt, the answer's beginning included, for the prompts of later turns."""
        if self.encoded is not None:
            model.prompt.remember(self.encoded, written)

    def loss_of(self, usage: Usage) -> Loss:
        """The cause for which fewer tokens were cached than expected, by the `usage` of the turn."""
        if self.ancestors.has_lost_salt:
            return Loss.SALT
        if usage.lost_to and not self.ancestors.has_unknown_salt:
            return Loss(usage.lost_to)
        root = self.root()
        root_tokens = root.tokens if root is not None else 0
        return cache_loss.of_parts(self.expected_tokens, usage.cached_tokens or 0, root_tokens=root_tokens)

    def lineage(
        self,
        model: ServedModel,
        usage: Usage,
        written: Sequence[int],
        *,
        begun: int = 0,
        placement: str | None,
        at_ms: int,
    ) -> bytes:
        """The lineage of the turn, for the turns that continue it. `written` as in `remember`; the first `begun` ids of
        it are the answer's beginning, which the usage counts as input."""
        pieces = self.encoded.pieces if self.encoded is not None else ()
        chars, expected = sum(map(len, pieces)), self.expected_tokens
        is_lost = usage.cached_tokens is not None and usage.cached_tokens < expected
        lineage = TurnLineage(
            model.prompt.fingerprint,
            prompt_chars=chars,
            prompt_digest=prompt_digests(pieces, [chars]).get(chars, b""),
            prompt_tokens=usage.input_tokens - begun,
            written_ids=model.tokenizer.known_ids(written),
            cached_tokens=usage.cached_tokens,
            expected_tokens=expected,
            placement=(placement or "").encode(),
            at_ms=at_ms,
            salt=self.ancestors.salt,
            lost_to=self.loss_of(usage).value if is_lost else "",
        )
        return turn_lineage.encode(lineage, self.round_lineage)

    def answers_at_once(self, model: ServedModel) -> bool:
        """Whether the output begins with the answer: the model can neither reason nor call a tool before it."""
        if self.tools.callable:
            return False
        return not model.can_reason or model.syntax.literal.answers_at_once(_tail(model, self.encoded))

    def for_engine(self, model: ServedModel, level: Level, beginning: Sequence[int]) -> Prompt:
        """The prompt in the form of the engine's level. `beginning` are the ids of the answer's beginning, which go
        behind the prompt. InvalidRequest: see `PromptEncoder.text` and `PromptEncoder.defuse`."""
        match level:
            case Level.TOKENS:
                return TokenPrompt([*self.ids, *beginning] if beginning else self.ids)
            case Level.TEXT:
                encoded = self.encoded or self.encode(self.conversation)
                text = model.prompt.text(encoded, self.conversation) + self.forced.beginning
                images = tuple(image.content for image in self.conversation.images)
                tokens = len(self.ids) + len(beginning)
                return TextPrompt(text, tokens=tokens, images=images, added=model.added_beginning)
            case Level.CHAT:
                shown = model.prompt.defuse(self.roles.adapt(self.conversation))
                return chat_form.of_conversation(shown, self.tools, self.switches)


@dataclass(frozen=True, slots=True)
class _TurnItems:
    """The items of a turn, and the tools that its request and its items declare."""

    known: ReadHistory
    """The part of the history that was read for an earlier turn."""
    history: Sequence[Any]
    """The items of the history behind the known ones."""
    given: Sequence[Any]
    output: Sequence[Any]
    """The items of the response before this round."""
    declared_in_history: Sequence[Declaration]
    history_cost: SchemaCost
    """The cost of the schemas of these tools."""
    tools: ToolSet

    @classmethod
    def read(cls, model: ServedModel, turn: Turn, parameters: Parameters) -> _TurnItems:
        """Reads the items of a turn. InvalidRequest: the declaration of a tool is wrong, with its path."""
        known, history, output = NOTHING_READ, list[Any](), list[Any]()
        if turn.history != NO_ITEMS:
            known = model.histories.find(turn.history)
            history = parse_array(known.rest(turn.history), field="history", is_known=True)
        given = parse_array(turn.input, field="input")
        if turn.output != NO_ITEMS:
            output = parse_array(turn.output, field="output")
        budget = SchemaBudget(known.schema_cost)
        in_history = [*known.declared, *declarations.in_items(history, "history", budget, known.items)]
        history_cost = budget.spent
        declared = [
            *declarations.check_tools(parameters.tools or (), "tools", budget),
            *in_history,
            *declarations.in_items(given, "input", budget),
            *declarations.in_items(output, "output", budget),
        ]
        offered = tools.offered_tools(declared, parameters.tool_choice)
        if output:
            offered = response_rounds.tools_of_round(offered, output, parameters)
        if turn.approval_tools:
            offered = offered.with_approvals(turn.approval_tools)
        return cls(known, history, given, output, in_history, history_cost, offered)

    def conversation(
        self, model: ServedModel, turn: Turn, parameters: Parameters, media: TurnMedia | None
    ) -> Conversation:
        """The conversation of these items. Caches the history as it was read, for the next turn."""
        conversation, read = conversation_items.build(
            instructions=parameters.instructions,
            history=self.history,
            given=self.given,
            output=self.output,
            tools=[tool.as_function() for tool in self.tools.shown],
            media=media,
            known=self.known,
            ids=model.call_ids,
        )
        if read.items > self.known.items:
            text = turn.history.rstrip()[:-1]
            declared, cost = self.declared_in_history, self.history_cost
            model.histories.keep(replace(read, text=text, declared=declared, schema_cost=cost))
        return conversation


def _ancestors_of(model: ServedModel, turn: Turn) -> Ancestors:
    """The turns and the earlier rounds that the prompt of a turn begins with."""
    stored = (*turn.lineages, turn.round_lineage) if turn.round_lineage else turn.lineages
    salt = cache_loss.salt_digest(model.cache_salt_of(turn)) if model.isolates_tenants else b""
    return Ancestors.read(stored, model.prompt.fingerprint, salt) if stored or salt else NO_ANCESTORS


def _encoding(model: ServedModel, turn: Turn, chosen: Mapping[str, Any], ancestors: Ancestors) -> Encode:
    """The function that encodes conversations of a turn."""
    return partial(
        model.prompt.encode,
        now_s=turn.created_at,
        switches=chosen,
        most_tokens=model.context_length,
        salt=model.cache_salt_of(turn) or "",
        ancestors=ancestors,
    )


def _switches(model: ServedModel, parameters: Parameters) -> Mapping[str, Any]:
    """The variables of the chat template that follow from the request's reasoning effort."""
    effort = parameters.reasoning.effort if parameters.reasoning is not None else None
    if effort is None:
        return {}
    prompt = model.prompt
    return switches.of_effort(effort, prompt.variables, reasons=model.can_reason, literals=prompt.literals)


def _require_readable(
    adapt: Callable[[Conversation], object], conversation: Conversation, path_of: Callable[[int], str]
) -> None:
    """InvalidRequest: the model's template has no place for an item, whether it is rendered here or by the server."""
    try:
        adapt(conversation)
    except InvalidRequest as error:
        raise rejected_item.name_item(error, conversation, adapt, path_of) from error


def _path_of(turn: Turn, parameters: Parameters, media: TurnMedia | None, place: int) -> str:
    """The path of the item that began the message at index `place` of the conversation."""
    return conversation_items.path_of(
        place,
        instructions=parameters.instructions,
        history=parse_array(turn.history, field="history", is_known=True),
        given=parse_array(turn.input, field="input"),
        output=parse_array(turn.output, field="output"),
        media=media.anew() if media is not None else None,
    )


def _measure(
    model: ServedModel, conversation: Conversation, encode: Encode, parameters: Parameters, *, is_exact: bool
) -> tuple[Conversation, int, EncodedPrompt | None]:
    """The conversation, truncated if necessary, the tokens of the context that it takes, and its encoded prompt.

    Unless `is_exact`, the prompt is not encoded if an upper bound leaves enough room for the answer: the output tokens
    that the request asks for, or else three quarters of the context. So an answer without a limit is not cut off much
    earlier than necessary."""
    asked = parameters.max_output_tokens
    if not model.is_measured:
        if parameters.truncation == "auto":
            raise unmeasured_error("'truncation' of 'auto'", field="truncation")
        return conversation, 0, None
    if not is_exact:
        bound = model.context_tokens(model.prompt.tokens_at_most(conversation), conversation)
        if bound <= (model.context_length // 4 if asked is None else model.context_length - asked):
            return conversation, bound, None
    encoded = encode(conversation)
    if parameters.truncation == "auto":
        most = model.context_length - truncation.reserve_tokens(model.context_length, asked)
        if model.context_tokens(encoded.tokens, conversation) > most:
            conversation, encoded = truncation.fit(
                conversation, encode, most_tokens=most, image_tokens=model.image_tokens
            )
    return conversation, model.context_tokens(encoded.tokens, conversation), encoded


def _force_call(model: ServedModel, offered: ToolSet, encoded: EncodedPrompt | None, *, guides: bool) -> ForcedCall:
    return forced_calls.of(model.syntax.literal, offered, _tail(model, encoded), guides=guides)


def _tail(model: ServedModel, encoded: EncodedPrompt | None) -> str:
    """The end of the prompt as text; empty if the prompt was not encoded."""
    return model.tokenizer.decode(encoded.ids[-PROMPT_TAIL_IDS:]) if encoded is not None else ""


def conversation_of(model: ServedModel, turn: Turn, parameters: Parameters, media: TurnMedia) -> Conversation:
    """The conversation of a turn, before it is truncated or encoded. InvalidRequest: as `TurnPrompt.of`."""
    return _TurnItems.read(model, turn, parameters).conversation(model, turn, parameters, media)


def item_path(turn: Turn, parameters: Parameters, media: TurnMedia, place: int) -> str:
    """The path of the item that began the message at index `place` of the conversation."""
    return _path_of(turn, parameters, media, place)


def count(model: ServedModel, turn: Turn, media: TurnMedia | None = None) -> int:
    """The number of tokens in the prompt of a turn. InvalidRequest: as `TurnPrompt.of`, or the model has no tokenizer.
    ContextLengthExceeded: the prompt is too long, and was not counted to its end."""
    if not model.is_measured:
        raise unmeasured_error("counting")
    return measure_prompt(model, turn, media).tokens


def measure_prompt(
    model: ServedModel, turn: Turn, media: TurnMedia | None = None, *, level: Level = Level.TOKENS
) -> TurnPrompt:
    """The prompt of a turn whose engine was not asked. Its `tokens` are exact unless `level` is CHAT, or 0 if the model
    has no tokenizer.

    InvalidRequest: as `TurnPrompt.of`. ContextLengthExceeded: the prompt is too long, and was not counted to its end.
    """
    prompt = TurnPrompt.of(model, turn, Parameters.parse(turn.request), media, level=level)
    if prompt.is_floor:
        raise ContextLengthExceeded.of(
            input_tokens=prompt.tokens, context_length=model.context_length, is_floor=prompt.is_floor
        )
    return prompt
