"""One model as the pipeline needs it: everything between items and token ids, and nothing of the engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from antiphon_core import limits
from antiphon_core.config import SettingsError
from antiphon_translator import model_directory
from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.token_parser import TokenSyntax
from antiphon_translator.profiles import ModelProfile
from antiphon_translator.prompt import ChatTemplate, PromptEncoder
from antiphon_translator.templates.harmony import HarmonyTemplate
from antiphon_translator.templates.jinja import InvalidTemplate, JinjaTemplate
from antiphon_translator.tokens import ModelTokenizer

log = logging.getLogger(__name__)

_WRITERS: Mapping[str, Callable[[], ChatTemplate]] = {"harmony": HarmonyTemplate}
"""What writes the prompts of families that need more than a chat template."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """`context_length` is prompt and output together, in tokens; `stop_ids` has the end-of-turn id first."""

    name: str
    prompt: PromptEncoder
    tokenizer: ModelTokenizer
    stop_ids: tuple[int, ...]
    sampling_defaults: Mapping[str, float | int]
    context_length: int
    syntax: TokenSyntax
    """How the model writes reasoning and calls."""


def load(profile: ModelProfile, *, prompt_cache_bytes: int = limits.PROMPT_CACHE_BYTES_DEFAULT) -> ServedModel:
    """Reads the model directory of a profile. SettingsError: what the operator has to put right."""
    facts = model_directory.read(profile.directory)
    source = _template_source(profile, facts)
    family = _family(profile, facts, source or "")
    template = _template(profile, facts, family, source)
    return ServedModel(
        name=profile.name,
        prompt=PromptEncoder(template, facts.tokenizer, cache_bytes=prompt_cache_bytes),
        tokenizer=facts.tokenizer,
        stop_ids=facts.stop_ids,
        sampling_defaults=facts.sampling_defaults,
        context_length=_context_length(profile, facts),
        syntax=TokenSyntax(family, facts.tokenizer),
    )


def _template_source(profile: ModelProfile, facts: model_directory.ModelFacts) -> str | None:
    if profile.chat_template is None:
        return facts.chat_template
    try:
        return profile.chat_template.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise SettingsError(f"Model '{profile.name}': cannot read its chat template: {error}") from error


def _template(
    profile: ModelProfile, facts: model_directory.ModelFacts, family: Family, source: str | None
) -> ChatTemplate:
    """What writes prompts: the family's own writer, if it has one, unless the profile names a template."""
    if family.prompt.writer and profile.chat_template is None:
        log.info("model '%s': its prompts are written as '%s'", profile.name, family.prompt.writer)
        return _WRITERS[family.prompt.writer]()
    if source is None:
        raise SettingsError(
            f"Model '{profile.name}': {profile.directory} has no chat template; name one with chat_template."
        )
    try:
        return JinjaTemplate(source, special_tokens=facts.special_tokens)
    except InvalidTemplate as error:
        raise SettingsError(f"Model '{profile.name}': its chat template does not compile: {error}") from error


def _family(profile: ModelProfile, facts: model_directory.ModelFacts, template: str) -> Family:
    """The family that the profile names, or the one that template and vocabulary speak for."""
    if profile.family is not None:
        try:
            return families.load(profile.family)
        except KeyError as error:
            raise SettingsError(
                f"Model '{profile.name}': there is no family '{profile.family}'; "
                f"there is {', '.join(families.names())}."
            ) from error
    detected = families.detect(template, set(facts.tokenizer.added.values()))
    log.info("model '%s': its family is '%s', by its chat template and vocabulary", profile.name, detected)
    return families.load(detected)


def _context_length(profile: ModelProfile, facts: model_directory.ModelFacts) -> int:
    known = [length for length in (profile.context_length, facts.context_length) if length is not None]
    if not known:
        raise SettingsError(
            f"Model '{profile.name}': {profile.directory}/config.json does not tell the context length; "
            "set context_length."
        )
    return min(known)
