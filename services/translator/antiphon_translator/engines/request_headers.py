"""The headers of requests to a server behind a URL, with its API key, and the secret of session keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from antiphon_core.telemetry import correlation
from antiphon_translator.engines import chat_errors
from antiphon_translator.models.profiles import ModelProfile

SECRET_BYTES_MIN = 16
_KEY = re.compile(r"[!-~]+")  # what a header can carry


def of(profile: ModelProfile) -> Mapping[str, str]:
    """The headers of a request. The API key is read for each request, so that its file can be replaced.

    EngineMisconfigured: the file is unreadable, or holds no key that a header can carry. Then nothing is sent."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        **dict(correlation.engine_headers()),
    }
    if profile.api_key_file is None:
        return headers
    return headers | {"Authorization": f"Bearer {_key_in(profile.api_key_file, profile.name)}"}


def session_secret(profile: ModelProfile) -> bytes:
    """The secret of the session keys for a fleet's router; empty if it needs none. It is read for each request, as the
    API key is. EngineMisconfigured: the file is unreadable, or its secret is too short."""
    if profile.session_secret_file is None:
        return b""
    file = f"The file with the session secret of model '{profile.name}'"
    secret = _text_in(profile.session_secret_file, file, profile.name).encode()
    if len(secret) < SECRET_BYTES_MIN:
        raise chat_errors.misconfigured_error(f"{file} holds fewer than {SECRET_BYTES_MIN} bytes", model=profile.name)
    return secret


def _key_in(path: Path, model: str) -> str:
    file = f"The file with the API key of model '{model}'"
    key = _text_in(path, file, model)
    if not _KEY.fullmatch(key):
        raise chat_errors.misconfigured_error(f"{file} holds no key", model=model)
    return key


def _text_in(path: Path, file: str, model: str) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise chat_errors.misconfigured_error(f"{file} is unreadable", model=model) from error
