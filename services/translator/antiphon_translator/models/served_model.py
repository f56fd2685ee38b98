"""A served model as the pipeline needs it: tokenizer, template, family and limits, without its engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from antiphon_core import limits
from antiphon_core.config import SettingsError
from antiphon_core.ports.translator import Turn
from antiphon_translator.conversation import Conversation
from antiphon_translator.media.sight import Sight
from antiphon_translator.models import model_directory, tenant_isolation, unseen_model
from antiphon_translator.models.profiles import CHAT_ENGINE, ModelProfile
from antiphon_translator.models.unseen_model import UnseenTemplate
from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt import call_ids
from antiphon_translator.prompt.call_ids import CallIds
from antiphon_translator.prompt.prompt import ChatTemplate, PromptEncoder
from antiphon_translator.prompt.read_history import HistoryCache
from antiphon_translator.templates import role_probe
from antiphon_translator.templates.harmony import HarmonyTemplate
from antiphon_translator.templates.jinja import InvalidTemplate, JinjaTemplate
from antiphon_translator.templates.roles import Roles
from antiphon_translator.tokenizer.tokens import ModelTokenizer

log = logging.getLogger(__name__)

_WRITERS: Mapping[str, Callable[[], ChatTemplate]] = {"harmony": HarmonyTemplate}
"""The prompt writers of families that need more than a chat template."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model that is served. `context_length` is prompt and output together, in tokens, 0 where only the model's
    server knows it. `stop_ids` has the end-of-turn id first."""

    name: str
    prompt: PromptEncoder
    tokenizer: ModelTokenizer
    stop_ids: tuple[int, ...]
    sampling_defaults: Mapping[str, float | int]
    context_length: int
    syntax: TokenSyntax
    """How the model writes reasoning and calls."""
    is_measured: bool = True
    """Whether the tokens of its prompts can be counted here."""
    max_output_tokens: int | None = None
    """The limit of output tokens for requests that set none."""
    can_reason: bool = False
    """Whether it may write reasoning."""
    shows_reasoning: bool = True
    """Whether a summary of its reasoning is the reasoning itself; there is none otherwise."""
    stop_in_reasoning: bool = False
    """Whether stop texts end the output in reasoning and calls, too."""
    added_beginning: str = ""
    """The text that a server with the model's tokenizer puts before a prompt that it encodes by itself."""
    lora: str | None = None
    """The LoRA adapter to run it with."""
    call_ids: CallIds = call_ids.ANY
    """The ids of calls in its prompts."""
    sight: Sight = Sight.REFUSE
    """The treatment of images, if its engine takes any."""
    image_tokens: int = 0
    """An estimate of the tokens of the context that an image takes, besides those of its mark in the prompt."""
    isolates_tenants: bool = False
    """Whether tenants share no cached prompt."""
    pinned_texts: tuple[str, ...] = ()
    """Beginnings of system messages that stay in the KV cache."""
    demotes_one_shots: bool = True
    """Whether prompts that nothing continues leave the KV cache first."""
    prewarm_tokens_per_minute: int = 0
    """Tokens of coming prompts that are read in advance for each tenant."""
    retained_tokens_per_tenant: int = 0
    """Tokens of the KV cache that each tenant may ask to retain."""
    histories: HistoryCache = field(default_factory=lambda: HistoryCache(limits.PROMPT_CACHE_BYTES_DEFAULT))
    """The cache of parsed histories."""

    @property
    def stop_tokens(self) -> tuple[str, ...]:
        """The texts of the `stop_ids` behind the first one that are added tokens of the vocabulary."""
        added = self.tokenizer.added
        return tuple(added[token_id] for token_id in self.stop_ids[1:] if token_id in added)

    def cache_salt_of(self, turn: Turn) -> str | None:
        """The salt of a turn in all caches of prompts; None if tenants share them. EngineMisconfigured: it has none."""
        return tenant_isolation.salt_of(turn, self.name) if self.isolates_tenants else None

    def context_tokens(self, prompt_tokens: int, conversation: Conversation) -> int:
        """The tokens of the context that a conversation takes: its prompt, and an estimate for its images."""
        return prompt_tokens + (self.image_tokens * len(conversation.images) if self.image_tokens else 0)


def load(profile: ModelProfile, *, prompt_cache_bytes: int = limits.PROMPT_CACHE_BYTES_DEFAULT) -> ServedModel:
    """Loads the model of a profile from its directory. SettingsError: profile and directory do not make a model that
    can be served; the message says why."""
    facts = model_directory.read(profile.directory) if profile.directory is not None else unseen_model.facts()
    source = _template_source(profile, facts)
    family = _family(profile, facts, source or "")
    template = _template(profile, facts, family, source)
    return ServedModel(
        name=profile.name,
        prompt=PromptEncoder(
            template, facts.tokenizer, roles=_roles(profile, facts, template, source), cache_bytes=prompt_cache_bytes
        ),
        tokenizer=facts.tokenizer,
        stop_ids=facts.stop_ids,
        sampling_defaults=facts.sampling_defaults,
        context_length=_context_length(profile, facts),
        syntax=TokenSyntax(family, facts.tokenizer),
        is_measured=profile.directory is not None and not isinstance(template, UnseenTemplate),
        max_output_tokens=profile.max_output_tokens,
        can_reason=_reasons(family, facts, source or ""),
        shows_reasoning=profile.reasoning_summary == "verbatim",
        stop_in_reasoning=profile.stop_in_reasoning,
        added_beginning=facts.added_beginning,
        lora=profile.lora,
        call_ids=call_ids.of(family.prompt.call_id, template.render),
        sight=_sight(profile, template),
        image_tokens=profile.image_tokens,
        isolates_tenants=profile.kv_isolation == "tenant",
        pinned_texts=_pinned_texts(profile),
        demotes_one_shots=profile.one_shots == "low",
        prewarm_tokens_per_minute=profile.prewarm_tokens_per_minute or 0,
        retained_tokens_per_tenant=profile.retained_tokens_per_tenant or 0,
        histories=HistoryCache(prompt_cache_bytes),
    )


def _pinned_texts(profile: ModelProfile) -> tuple[str, ...]:
    """The texts of the files that the profile pins. SettingsError: one cannot be read, or is empty."""
    texts = []
    for path in profile.pinned_system_messages:
        try:
            text = path.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(f"Model '{profile.name}': cannot read a pinned system message: {error}") from error
        if not text:
            raise SettingsError(f"Model '{profile.name}': the pinned system message {path} is empty.")
        texts.append(text)
    return tuple(texts)


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
    """Chooses the template: the family's own writer of prompts, if it has one and the profile names no template; else
    the profile's or the directory's template."""
    if family.prompt.writer and profile.chat_template is None:
        log.info("model '%s': its prompts are written as '%s'", profile.name, family.prompt.writer)
        return _WRITERS[family.prompt.writer]()
    if source is None and profile.engine == CHAT_ENGINE:
        return UnseenTemplate()
    if source is None:
        raise SettingsError(
            f"Model '{profile.name}': {profile.directory} has no chat template; name one with chat_template."
        )
    return _compile(profile, facts, source)


def _compile(profile: ModelProfile, facts: model_directory.ModelFacts, source: str) -> JinjaTemplate:
    try:
        return JinjaTemplate(source, special_tokens=facts.special_tokens, image_token=profile.image_token)
    except InvalidTemplate as error:
        raise SettingsError(f"Model '{profile.name}': its chat template does not compile: {error}") from error


def _roles(
    profile: ModelProfile, facts: model_directory.ModelFacts, template: ChatTemplate, source: str | None
) -> Roles:
    """The roles that the profile names, or else those that the template of the prompt reads. A chat server renders with
    the model's own template, even where prompts are counted here with the family's writer."""
    if profile.roles:
        return Roles.of_names(profile.roles)
    if isinstance(template, UnseenTemplate):
        return Roles()
    is_elsewhere = profile.engine == CHAT_ENGINE and not isinstance(template, JinjaTemplate)
    shown = _compile(profile, facts, source) if is_elsewhere and source is not None else template
    roles = role_probe.of(shown.render)
    log.info("model '%s': its chat template reads %s", profile.name, ", ".join(roles.names))
    if not roles.tool and (cause := role_probe.rejection_of_results(shown.render)) is not None:
        log.warning("model '%s': its requests with results of calls get a 400: %s", profile.name, cause)
    return roles


def _family(profile: ModelProfile, facts: model_directory.ModelFacts, template: str) -> Family:
    """The family that the profile names, or else the one that template and vocabulary suggest."""
    if profile.family is not None:
        try:
            return families.load(profile.family)
        except KeyError as error:
            raise SettingsError(
                f"Model '{profile.name}': there is no family '{profile.family}'; "
                f"there are {', '.join(families.names())}."
            ) from error
    detected = families.detect(template, set(facts.tokenizer.added.values()))
    log.info("model '%s': its family is '%s', by its chat template and vocabulary", profile.name, detected)
    return families.load(detected)


def _reasons(family: Family, facts: model_directory.ModelFacts, template: str) -> bool:
    """Whether the model may reason. Only some models of a family do: those whose template or vocabulary has the
    family's markers of reasoning. All models of a family with a grammar do."""
    known = set(facts.tokenizer.added.values())
    return family.grammar is not None or any(
        opener.strip() in known or opener.strip() in template for opener in family.reasoning_open
    )


def _sight(profile: ModelProfile, template: ChatTemplate) -> Sight:
    """The profile's treatment of images. SettingsError: the template has no place for an image. A server of chat
    completions places images with a template of its own."""
    sight = Sight(profile.images)
    if sight is Sight.NATIVE and profile.engine != CHAT_ENGINE and not template.image_mark:
        if isinstance(template, JinjaTemplate):
            advice = "set image_token to the text that stands for one"
        else:
            advice = "set chat_template to a template that has one"
        raise SettingsError(
            f"Model '{profile.name}': images = 'native', but its chat template has no place for an image; {advice}."
        )
    return sight


def _context_length(profile: ModelProfile, facts: model_directory.ModelFacts) -> int:
    wanted, own = profile.context_length, facts.context_length
    if wanted is not None and own is not None and wanted > own:
        raise SettingsError(
            f"Model '{profile.name}': context_length = {wanted} is more than the {own} tokens that "
            f"{profile.directory}/config.json allows."
        )
    known = [length for length in (wanted, own) if length is not None]
    if not known and profile.directory is None:
        return 0
    if not known:
        raise SettingsError(
            f"Model '{profile.name}': {profile.directory}/config.json has no context length; set context_length."
        )
    return known[0]
