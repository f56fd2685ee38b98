"""`antiphon profile check FILE`: prints how a model profile is understood, and whether its server is ready.

The exit status is 1 if the server is not ready, 2 if the profile has a mistake.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from antiphon_core.errors import AntiphonError
from antiphon_translator.engines import registry
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.models import profiles, served_model
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.models.served_model import ServedModel

UNKNOWN = "not known here: the server says when a prompt is too long"


def declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser("check", help="check a profile, show how it is understood, and ask its server")
    check.add_argument("file", type=Path, metavar="FILE", help="a model profile (*.toml)")
    check.add_argument("--offline", action="store_true", help="do not ask the server")
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    """Prints how a profile is understood. SettingsError: the profile has a mistake."""
    profile = profiles.load(options.file)
    model = served_model.load(profile)
    for name, value in _facts(profile, model):
        print(f"{name + ':':<16}{value}")
    reason = "" if options.offline else asyncio.run(reason_of(profile))
    if not options.offline:
        print(f"{'server:':<16}{reason or 'ready'}")
    return 1 if reason else 0


def _facts(profile: ModelProfile, model: ServedModel) -> Iterator[tuple[str, str]]:
    yield "name", profile.name
    yield "engine", f"{profile.engine} ({profiles.ENGINES[profile.engine]})"
    yield "endpoints", ", ".join(profile.endpoints or (profile.endpoint,))
    yield "directory", str(profile.directory or "none: tokens are counted by the server alone")
    yield "context length", str(model.context_length or UNKNOWN)
    yield "family", model.syntax.literal.name
    yield "roles", ", ".join(model.prompt.roles.names)
    yield "images", profile.images


async def reason_of(profile: ModelProfile) -> str:
    """The reason why an endpoint of the profile is not ready; empty if all are."""
    for endpoint in profile.endpoints or (profile.endpoint,):
        reason = await _reason_at(replace(profile, endpoint=endpoint, endpoints=()))
        if reason:
            return f"{endpoint}: {reason}" if profile.endpoints else reason
    return ""


async def _reason_at(profile: ModelProfile) -> str:
    engine = registry.ENGINES[profile.engine](profile, TritonChannels())
    try:
        await engine.controls()
        await engine.ready()
        return await _missing(profile, engine) if isinstance(engine, OpenAIChatEngine) else ""
    except AntiphonError as error:
        return error.message
    finally:
        await engine.close()


async def _missing(profile: ModelProfile, engine: OpenAIChatEngine) -> str:
    """The reason if a chat server does not list the profile's model; empty if it does."""
    listed = [model.name for model in await engine.list_models()]
    asked = profile.lora or profile.served_name
    return "" if asked in listed else f"has no model '{asked}' (chat_model); it lists {', '.join(listed) or 'none'}"
