"""The plan of a turn: everything that is decided before its first event, from the request, the model and the engine.

A plan never changes. The pipeline executes it and holds the state that changes: the response machine, the open items,
the token counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from antiphon_core import response
from antiphon_core.errors import ContextLengthExceeded, InvalidRequest
from antiphon_core.ids import Ids, tree_tag
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Turn
from antiphon_core.request.body import Parameters
from antiphon_translator.generation import SWITCHES, UNLIMITED, GenerationRequest, Guide, Level, Sampling
from antiphon_translator.media.downloads import NOTHING, Downloads
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.schemas.answer_check import AnswerCheck
from antiphon_translator.turn import cache_retention, effective_reasoning, forced_calls, sampling
from antiphon_translator.turn.cache_retention import BREAKPOINT, NO_CHOICE, CacheChoice, Share
from antiphon_translator.turn.checked_parameters import CheckedParameters, check_parameters
from antiphon_translator.turn.turn_prompt import TurnPrompt

SEED_DIGITS = 8  # 32 bits: the most that every engine takes
CONVERSATION_DIGITS = 32
LOW_PRIORITY = 25
"""The priority of what can wait: background responses, and requests of the service tier "flex"."""


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """The plan of one turn."""

    model: ServedModel
    prompt: TurnPrompt
    request: GenerationRequest
    """The request for the first generation."""
    answer_guide: Guide | None
    """The guide for the answer alone, if the model may reason or call a tool before it answers
    (output/guided_output.py). None if there is no guide, or if `request` has it from the first token on."""
    answer_check: AnswerCheck | None
    """The check of the answer against the format that was asked for."""
    skeleton: Object
    """The response before its first event."""
    has_summary: bool
    """Whether reasoning is sent as a summary."""
    has_one_call: bool
    """Whether the first complete call ends the turn."""
    parameters: Parameters
    is_resumable: bool
    """Whether another generation could continue the output behind the ids of an interrupted one."""
    request_bytes: int
    turn_bytes: int
    cache: CacheChoice = NO_CHOICE
    """The hints for the engine about the blocks of the prompt."""

    @classmethod
    def of(
        cls,
        model: ServedModel,
        turn: Turn,
        *,
        controls: frozenset[str],
        ids: Ids,
        level: Level = Level.TOKENS,
        downloads: Downloads = NOTHING,
    ) -> TurnPlan:
        """Validates and encodes the turn, which may take long. `controls` and `level` are those of the engine,
        `downloads` the contents of the turn's URLs (media/turn_media.py). `ids` make the seed of a turn without one.

        InvalidRequest: the turn cannot be served; the error has the path of the cause. ContextLengthExceeded: prompt
        and output do not fit into the model's context.
        """
        finds_stops = level is Level.TOKENS or not model.stop_in_reasoning
        given = check_parameters(turn.request, controls, finds_stops=finds_stops)
        chosen, effective = _sampling(given, model, controls, seed=int(ids.hex(SEED_DIGITS), 16))
        media = TurnMedia(model.sight.with_controls(controls), downloads)
        prompt = TurnPrompt.of(model, turn, given.parameters, media, level=level, guides="guide" in controls)
        _require_forced(prompt, level)
        begin_guide, answer_guide = _guides(given.guide, prompt, model, level)
        request = _generation(given, model, turn, prompt, level, sampling=chosen, guide=begin_guide)
        reasoning, has_summary = _reasoning(given, model, prompt, level, controls)
        return cls(
            model=model,
            prompt=prompt,
            request=request,
            answer_guide=answer_guide,
            answer_check=given.answer_check,
            skeleton=_skeleton(given, model, turn, prompt, request, effective | reasoning),
            has_summary=has_summary,
            has_one_call=given.parameters.parallel_tool_calls is False,
            parameters=given.parameters,
            is_resumable=_is_resumable(given, request, level),
            request_bytes=len(turn.request),
            turn_bytes=turn.size_bytes,
        )

    def with_hints(self, turn: Turn, controls: frozenset[str], share: Share) -> TurnPlan:
        """The plan with hints for the engine's KV cache. `share` counts what the tenant has retained there."""
        if not _may_have_hints(self.parameters, turn, self.model):
            return self
        cache = cache_retention.choose(turn, self.parameters, self.prompt, self.model, controls, share)
        if cache is NO_CHOICE:
            return self
        request = replace(self.request, retention=cache.retention)
        return replace(self, request=request, skeleton=self.skeleton | (cache.members or {}), cache=cache)


def _may_have_hints(parameters: Parameters, turn: Turn, model: ServedModel) -> bool:
    """Whether anything asks for hints to the KV cache. Of most turns nothing does."""
    is_asked = parameters.prompt_cache_options is not None or parameters.prompt_cache_retention == "24h"
    is_alone = parameters.store is False or parameters.background is True
    may_be_low = model.demotes_one_shots and is_alone
    return is_asked or BREAKPOINT in turn.input or bool(model.pinned_texts) or may_be_low


def _sampling(
    given: CheckedParameters, model: ServedModel, controls: frozenset[str], seed: int
) -> tuple[Sampling, Object]:
    nvext = given.parameters.nvext
    asked = given.asked if nvext is None else given.asked | nvext.sampling()
    return sampling.choose(asked=asked, defaults=model.sampling_defaults, controls=controls, seed=seed)


def _reasoning(
    given: CheckedParameters, model: ServedModel, prompt: TurnPrompt, level: Level, controls: frozenset[str]
) -> tuple[Object, bool]:
    """The effective reasoning, and whether it is sent as a summary. A server that renders the prompt itself may take no
    switches for its template."""
    asked = given.parameters.reasoning
    if asked is None:
        return {}, False
    has_summary = effective_reasoning.has_summary(asked, model, level)
    sent = prompt.switches if level is not Level.CHAT or SWITCHES in controls else None
    return effective_reasoning.reasoning_in_effect(given.asked, sent, has_summary=has_summary), has_summary


def _skeleton(
    given: CheckedParameters,
    model: ServedModel,
    turn: Turn,
    prompt: TurnPrompt,
    request: GenerationRequest,
    effective: Object,
) -> Object:
    """The response before its first event, with the values that are in effect. The token limit of a response that is
    made in rounds is that of the request: what is left for a round is not told."""
    if ("max_output_tokens" in given.asked or model.max_output_tokens is not None) and not prompt.tools.servers:
        effective = effective | {"max_output_tokens": request.max_tokens}
    return response.skeleton(given.asked | effective, response_id=turn.response_id, created_at=turn.created_at)


def _guides(
    guide: Guide | None, prompt: TurnPrompt, model: ServedModel, level: Level
) -> tuple[Guide | None, Guide | None]:
    """The guide from the first token on, and the guide for the answer alone. At most one of them is given."""
    if prompt.tools.requires_call and level is not Level.CHAT:  # the output is a call, and no answer
        return prompt.forced.guide, None
    if guide is None or level is Level.CHAT or prompt.answers_at_once(model):
        return guide, None
    return None, guide


def _is_resumable(given: CheckedParameters, request: GenerationRequest, level: Level) -> bool:
    """Whether another generation could continue behind the ids of this one. With a guide it could not, because the
    engine would begin the grammar again in the middle; nor with log probabilities, which are not kept with the ids."""
    is_guided = given.guide is not None or request.guide is not None
    return level is Level.TOKENS and not is_guided and request.top_logprobs is None


def _generation(
    given: CheckedParameters,
    model: ServedModel,
    turn: Turn,
    prompt: TurnPrompt,
    level: Level,
    *,
    sampling: Sampling,
    guide: Guide | None,
) -> GenerationRequest:
    """The request for the engine. ContextLengthExceeded: prompt and output do not fit into the model's context."""
    parameters = given.parameters
    beginning = (
        model.tokenizer.encode(prompt.forced.beginning) if prompt.forced.beginning and level is not Level.CHAT else []
    )
    max_tokens = _output_limit(
        parameters.max_output_tokens, model, prompt, beginning_tokens=len(beginning), used=turn.used.output_tokens
    )
    return GenerationRequest(
        request_id=turn.response_id,
        prompt=prompt.for_engine(model, level, beginning),  # a prompt over the limit may have no text
        max_tokens=max_tokens,
        stop_ids=() if parameters.extensions.ignore_eos else model.stop_ids,
        stop_tokens=() if parameters.extensions.ignore_eos else model.stop_tokens,
        stop=parameters.stop_texts,
        stop_in_reasoning=model.stop_in_reasoning,
        ignore_eos=bool(parameters.extensions.ignore_eos),
        parallel_calls=parameters.parallel_tool_calls,
        sampling=sampling,
        guide=guide,
        top_logprobs=given.top_logprobs,
        lora=model.lora,
        cache_key=parameters.prompt_cache_key,
        cache_salt=model.cache_salt_of(turn),
        conversation=_conversation(turn),
        priority=LOW_PRIORITY if parameters.background or parameters.service_tier == "flex" else None,
        placement=prompt.ancestors.hints(prompt.ids) if prompt.ancestors.lineages else (),
        prompt_tokens=prompt.tokens + len(beginning),
        root=prompt.root(),
    )


def _conversation(turn: Turn) -> str | None:
    """A name for the tree of a response, from which its ids do not follow."""
    tag = tree_tag(turn.response_id)
    return None if tag is None else sha256(tag.encode()).hexdigest()[:CONVERSATION_DIGITS]


def _require_forced(prompt: TurnPrompt, level: Level) -> None:
    """InvalidRequest: the request requires a call, and the model cannot be forced to write one."""
    if not prompt.tools.requires_call:
        return
    if not prompt.forced.beginning and level is not Level.CHAT:  # the family's table has no beginning of a call
        raise InvalidRequest(
            "This model can be offered tools, but not be made to call one: 'tool_choice' must be 'auto' or 'none'.",
            field="tool_choice",
            code="unsupported_value",
        )
    forced_calls.require_grammars(prompt.tools, prompt.forced)


def _output_limit(
    asked: int | None, model: ServedModel, prompt: TurnPrompt, *, beginning_tokens: int, used: int = 0
) -> int:
    """The token limit of the output: the request's, else that of the model's profile, less the tokens `used` by earlier
    rounds. It is cut to the context that is left behind the prompt and the tokens of the answer's beginning, if prompts
    are counted here. At least one token can be generated: a response that has used up its limit ends then."""
    asked = model.max_output_tokens if asked is None else asked
    if asked is not None and used:
        asked = max(asked - used, 1)
    if not model.is_measured:
        return UNLIMITED if asked is None else asked
    context_length = model.context_length
    prompt_tokens = prompt.tokens + beginning_tokens
    room = context_length - prompt_tokens
    if room < 1:
        raise ContextLengthExceeded.of(
            input_tokens=prompt_tokens, context_length=context_length, is_floor=prompt.is_floor
        )
    return room if asked is None else min(asked, room)
