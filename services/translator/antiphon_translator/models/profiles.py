"""Model profiles: how an operator describes a model and its endpoints.

A profile is a TOML file, one per model; paths in it are relative to the file. `name` is the `model` of requests.

    name = "smollm2"
    directory = "/models/smollm2"            # tokenizer.json, tokenizer_config.json, config.json, ...
    endpoint = "triton:8001"                 # gRPC host:port, or endpoints = [...] for several that serve the same
    triton_model = "tensorrt_llm"

Or, for a server of chat completions:

    name = "llama"
    engine = "openai_chat"
    endpoint = "http://vllm:8000/v1"         # directory is not needed

Every mistake is found when the profile is loaded, and reported in one line.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from antiphon_core.config import SettingsError
from antiphon_core.telemetry import remedies
from antiphon_core.telemetry.log_fields import REMEDY
from antiphon_translator.templates.roles import CAPABILITIES

_ENDPOINT = re.compile(r"(?:dns:///)?[^\s/]+:\d{1,5}")
_URL = re.compile(r"https?://[^\s/]+(?:/\S*)?")
PORT_MAX = 65_535
SESSION_ROUTERS = frozenset({"dynamo", "smg", "trtllm_serve", "sglang"})
"""Values of `router` that are told sessions (engines/fleet_routers.py)."""
CHAT_ENGINE = "openai_chat"
IDS_ENGINE = "vllm_tokens"
ENGINES: Mapping[str, str] = {
    "auto": "asks a Triton server which kind of model it has",
    "triton_tokens": "TensorRT-LLM on Triton, in token ids",
    "triton_text": "an ensemble, BLS or LLM-API model on Triton, in text",
    "triton_vllm": "Triton's vLLM backend",
    CHAT_ENGINE: "a server of chat completions behind a URL: NIM, vLLM, SGLang, llama.cpp",
    IDS_ENGINE: "NIM and vLLM behind a URL, in token ids (/inference/v1/generate)",
}
"""The names that `engine` can have, with the use of each. engines.registry has a row for each."""
SALTED_ENGINES = frozenset({"auto", "triton_tokens", IDS_ENGINE})
"""Engines that may take a cache salt. Whether a Triton model does is known when it was asked."""
URL_ENGINES = frozenset({CHAT_ENGINE, IDS_ENGINE})
"""Engines whose endpoints are URLs; those of the others are hosts with ports."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The profile of one model."""

    name: str
    endpoint: str
    """The address of the engine: host:port of Triton's gRPC, for openai_chat and vllm_tokens the base URL, such as
    http://vllm:8000/v1."""
    directory: Path | None = None
    """The model's tokenizer and template. An openai_chat server has its own: without a directory tokens are not counted
    here, and only the server rejects a prompt that is too long."""
    endpoints: tuple[str, ...] = ()
    """All endpoints, `endpoint` the first, where there are several."""
    engine: str = "auto"
    """A row of engines.registry; "auto" asks the Triton server which kind of model it has."""
    triton_model: str = "tensorrt_llm"
    chat_model: str | None = None
    """The model's name on the server behind a URL, where it is not this profile's name."""
    api_key_file: Path | None = None
    """The file with the API key for the server behind a URL."""
    lora: str | None = None
    """The LoRA adapter: a task id of TensorRT-LLM, or a name on the vLLM backend or on a server behind a URL."""
    chat_template: Path | None = None
    """A template to use instead of the model directory's own."""
    roles: tuple[str, ...] = ()
    """The roles that the model's template reads (roles.CAPABILITIES), instead of those that the directory's template
    reads: a chat server may render with another template."""
    family: str | None = None
    """The model family (how the model writes reasoning and calls); by default detected by template and vocabulary."""
    context_length: int | None = None
    """Tokens of prompt and output together, where the engine was built for fewer than the model allows."""
    kv_block_tokens: int | None = None
    """Tokens of a block of TensorRT-LLM's cache (`tokens_per_block` of the engine), by which its own models count
    `cached_tokens` in the usage. Without it the number is read from the server's metrics, if these can be reached.
    Token-level models of `antiphon triton-models` count tokens, and need no such number."""
    metrics_port: int = 8_002
    """The port of a Triton server's metrics."""
    kv_isolation: Literal["none", "tenant"] = "none"
    """Whether tenants share the KV cache (none) or not (tenant). A shared cache is faster where tenants send the same
    prompts, and shows by its timing what others have sent. Needs an engine that takes a cache salt, and
    cache_salt_keys_file of edges and workers."""
    one_shots: Literal["low", "normal"] = "low"
    """The priority in the KV cache of prompts that nothing continues: requests that are not stored or run in the
    background, without history, tools and `prompt_cache_key`. An engine that takes priorities evicts such blocks
    first."""
    retained_tokens_per_tenant: int | None = None
    """Tokens of the KV cache that each tenant may have retained by `prompt_cache_options.ttl`, breakpoints and
    `prompt_cache_retention`, in each translator process. Without it such lifetimes are left out. A quarter of the
    cache, divided by the translators and by the tenants that use it at once, is a beginning."""
    prewarm_tokens_per_minute: int | None = None
    """Tokens of coming prompts that are read in advance for each tenant in a minute, by each translator process: behind
    an answer whose reasoning the template leaves out of the history, while no other prompt waits at the endpoint.
    Without it none are. Only for models in token ids that reason."""
    pinned_system_messages: tuple[Path, ...] = ()
    """Files, each with the beginning of a system message. Prompts that begin with one keep this beginning in the KV
    cache before all others."""
    router: Literal["none", "llm_d", "dynamo", "smg", "trtllm_serve", "sglang"] = "none"
    """The kind of router that stands before a fleet of servers behind the URL, which is then told what belongs
    together. Each of `endpoints` may be one."""
    session_secret_file: Path | None = None
    """A file with a secret of 16 bytes or more, equal for all translators: the key of the sessions that a `router` is
    told, in place of any id."""
    cache_hints: Literal["none", "openai"] = "none"
    """Whether an openai_chat server is sent the `prompt_cache_key` of a request."""
    max_output_tokens: int | None = None
    """The limit of output tokens for requests that set none; without it, the rest of the context."""
    reasoning_summary: Literal["verbatim", "none"] = "verbatim"
    """The summary of the reasoning for requests that ask for one: the reasoning itself, or none."""
    stop_in_reasoning: bool = False
    """Whether the stop texts of a request are also searched for in reasoning and calls, as vLLM does, and not only in
    the answer."""
    images: Literal["native", "placeholder", "refuse"] = "refuse"
    """The treatment of images: the model sees them, reads a placeholder, or the request is rejected (media.sight)."""
    image_token: str | None = None
    """The text that stands for an image in the prompt, such as "<image>", where the chat template writes none."""
    image_tokens: int = 1_024
    """An estimate of the tokens of the context that an image takes; only the engine knows the exact number."""
    first_token_timeout_s: float = 120.0
    """Timeout for the first token; includes the engine's queue and reading the prompt."""
    token_timeout_s: float = 30.0
    """Timeout between two tokens: a server whose backend died sends nothing more, and does not end the stream."""
    probe_timeout_s: float = 5.0
    """Timeout for readiness, configuration and lists of models, which a healthy server answers at once."""

    @property
    def served_name(self) -> str:
        """The model's name at a server behind a URL."""
        return self.chat_model or self.name


def load(path: Path) -> ModelProfile:
    """Loads one profile. SettingsError: the file is wrong; the message says where."""
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"Cannot read the model profile {path}: {error}") from error
    return from_values(given, base=path.parent, source=str(path))


def load_directory(directory: Path) -> list[ModelProfile]:
    """Loads all profiles (*.toml) of a directory, sorted by file name. SettingsError: also when two have one name."""
    if not directory.is_dir():
        raise SettingsError(f"The directory of model profiles, {directory}, does not exist.")
    seen: dict[str, Path] = {}
    profiles = []
    for path in sorted(directory.glob("*.toml")):
        profile = load(path)
        if profile.name in seen:
            raise SettingsError(f"{path}: the model '{profile.name}' is described in {seen[profile.name]} already.")
        seen[profile.name] = path
        profiles.append(profile)
    return profiles


def from_values(given: Mapping[str, Any], *, base: Path = Path(), source: str = "profile") -> ModelProfile:
    """Makes a profile from plain values, as TOML has them. SettingsError: a value is wrong."""
    known = {member.name: member for member in fields(ModelProfile)}
    for name in given:
        if name not in known:
            raise SettingsError(f"{source}: there is no '{name}' in a model profile{_hint(name, list(known))}")
    values = {name: _check_member(member, given[name], base, source) for name, member in known.items() if name in given}
    if "endpoints" in values and values.setdefault("endpoint", values["endpoints"][0]) != values["endpoints"][0]:
        raise SettingsError(f"{source}: give either endpoint or endpoints.")
    _check_engine(values.get("engine", "auto"), source)
    for name, member in known.items():
        if member.default is MISSING and name not in values:
            raise SettingsError(f"{source}: '{name}' is missing.")
    profile = ModelProfile(**values)
    _check_directory(profile, source)
    _check_roles(profile, source)
    _check_endpoints(profile, source)
    _check_isolation(profile, source)
    _check_router(profile, source)
    return profile


def _check_engine(name: str, source: str) -> None:
    if name not in ENGINES:
        known = "; ".join(f"{each}, {what}" for each, what in ENGINES.items())
        raise SettingsError(f"{source}: there is no engine '{name}'. There is {known}.")


def _check_directory(profile: ModelProfile, source: str) -> None:
    if profile.directory is None and profile.engine != CHAT_ENGINE:
        raise SettingsError(
            f"{source}: 'directory' is missing: the model's tokenizer and template. Only "
            f'engine = "{CHAT_ENGINE}" needs none.'
        )


def _check_roles(profile: ModelProfile, source: str) -> None:
    for name in profile.roles:
        if name not in CAPABILITIES:
            raise SettingsError(f"{source}: roles has '{name}'; there is {', '.join(CAPABILITIES)}.")


def _check_endpoints(profile: ModelProfile, source: str) -> None:
    has_url = profile.engine in URL_ENGINES
    form, what = (_URL, "a URL that begins with http") if has_url else (_ENDPOINT, "host:port, the port of gRPC")
    endpoints = profile.endpoints or (profile.endpoint,)
    for endpoint in endpoints:
        if "@" in endpoint:  # not repeated here, because it may have a password
            raise SettingsError(
                f"{source}: endpoint must not have a user name or password, which metrics and traces would show; "
                "api_key_file has the key of a server."
            )
        if not form.fullmatch(endpoint):
            raise SettingsError(f"{source}: endpoint = '{endpoint}' must be {what}{_engine_hint(profile, endpoint)}.")
    if profile.metrics_port > PORT_MAX:
        raise SettingsError(f"{source}: metrics_port = {profile.metrics_port} must be at most {PORT_MAX}.")
    if len(set(endpoints)) < len(endpoints):
        raise SettingsError(f"{source}: endpoints has one of them twice.")


def _check_isolation(profile: ModelProfile, source: str) -> None:
    if profile.kv_isolation == "tenant" and profile.engine not in SALTED_ENGINES:
        raise SettingsError(
            f'{source}: engine = "{profile.engine}" takes no cache salt. {remedies.ISOLATE_TENANTS[REMEDY]}'
        )


def _check_router(profile: ModelProfile, source: str) -> None:
    if profile.router != "none" and profile.engine not in URL_ENGINES:
        raise SettingsError(f"{source}: router = '{profile.router}' needs an engine behind a URL.")
    if profile.router in SESSION_ROUTERS and profile.session_secret_file is None:
        raise SettingsError(
            f"{source}: router = '{profile.router}' needs session_secret_file: a file with a secret, equal for all "
            "translators, from which the router's session keys are made."
        )


def _engine_hint(profile: ModelProfile, endpoint: str) -> str:
    """Advice for an endpoint that is a URL, where the engine takes none."""
    is_misplaced_url = profile.engine not in URL_ENGINES and _URL.fullmatch(endpoint)
    return f', or engine must be "{CHAT_ENGINE}", for a server of chat completions' if is_misplaced_url else ""


def _check_member(member: Field[Any], given: Any, base: Path, source: str) -> Any:
    where = f"{source}: {member.name} = {given!r}"
    kind = str(member.type)  # annotations are text here
    if kind.startswith("Literal"):
        choices = get_args(get_type_hints(ModelProfile)[member.name])
        if given not in choices:
            raise SettingsError(f"{where} must be one of {', '.join(choices)}.")
        return given
    if kind == "bool":
        if not isinstance(given, bool):
            raise SettingsError(f"{where} must be true or false.")
        return given
    if kind.startswith("int") or kind == "float":
        wanted = (int, float) if kind == "float" else (int,)
        if not isinstance(given, wanted) or isinstance(given, bool) or not 0 < given < math.inf:
            raise SettingsError(f"{where} must be a positive {'number' if kind == 'float' else 'whole number'}.")
        return given
    if kind.startswith("tuple"):
        if not isinstance(given, list) or not given or not all(isinstance(one, str) and one for one in given):
            raise SettingsError(f"{where} must be a list of texts.")
        return tuple(base / one if kind.startswith("tuple[Path") else one for one in given)
    if not isinstance(given, str) or not given:
        raise SettingsError(f"{where} must be text.")
    return base / given if kind.startswith("Path") else given


def _hint(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else "."
