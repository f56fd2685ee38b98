"""The checks of `antiphon doctor`. Each yields findings: a level, a subject, a sentence, and a remedy."""

from __future__ import annotations

import asyncio
import platform
import resource
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from importlib.util import find_spec
from pathlib import Path

from antiphon.folders import default_data_folder
from antiphon.profile_command import reason_of
from antiphon.settings import SECTIONS, Settings
from antiphon.talk.api import Api
from antiphon.talk.errors import ApiError
from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError
from antiphon_core.version import VERSION
from antiphon_store.settings import StoreSettings

DESCRIPTORS_MIN = 4096
DISK_BYTES_MIN = 2 * 2**30
CLOCK_S_MAX = 2.0
EXTRAS = {
    "edge": "aiohttp",
    "translator": "tokenizers",
    "redis": "redis",
    "postgresql": "psycopg",
    "otel": "opentelemetry",
}


class Level(Enum):
    OK = auto()
    WARNING = auto()
    FAULT = auto()


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check. `remedy` says what to do; it is empty if there is nothing to do."""

    level: Level
    subject: str
    message: str
    remedy: str = ""


def of_machine() -> Iterator[Finding]:
    """Checks the interpreter, the optional packages, the limit of open files and the free disk space."""
    libc, libc_version = platform.libc_ver()
    yield Finding(
        Level.OK, "machine", f"Python {platform.python_version()}, {platform.machine()}, {libc} {libc_version}"
    )
    missing = [extra for extra, module in EXTRAS.items() if find_spec(module) is None]
    if missing:
        remedy = f"pip install 'antiphon-server[{','.join(missing)}]', if you need them."
        yield Finding(Level.WARNING, "packages", f"not installed: {', '.join(missing)}", remedy)
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    enough = descriptors >= DESCRIPTORS_MIN
    yield Finding(
        Level.OK if enough else Level.WARNING, "descriptors", f"{descriptors} open files at most",
        "" if enough else f"Each stream takes one: raise the limit to {DESCRIPTORS_MIN} or more (ulimit -n).",
    )  # fmt: skip
    yield _disk(default_data_folder())


def _disk(folder: Path) -> Finding:
    try:
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return Finding(Level.WARNING, "disk", f"{folder}: {error.strerror}", "Run this as the user of the server.")
    message = f"{free / 2**30:.1f} GiB free for {folder}"
    if free >= DISK_BYTES_MIN:
        return Finding(Level.OK, "disk", message)
    return Finding(Level.WARNING, "disk", message, "A store that cannot write rejects turns. Free some disk space.")


def of_settings(loaded: Settings) -> Iterator[Finding]:
    """Yields a warning for each setting that is valid but unwise."""
    warnings = list(loaded.warnings(SECTIONS))
    for message, explanation in warnings:
        yield Finding(Level.WARNING, "settings", message, explanation)
    if not warnings:
        yield Finding(Level.OK, "settings", "no warnings")


async def of_store(store: StoreSettings) -> list[Finding]:
    """Opens the store that the settings name, without changing it."""
    from antiphon_store.backends.registry import row_backend

    if store.url.startswith("memory:"):
        remedy = "Conversations end with the process: name a database with --store-url to keep them."
        return [Finding(Level.WARNING, "store", "memory", remedy)]
    scheme, _, address = store.url.partition("://")
    path = address.removeprefix("/")
    try:
        rows = row_backend(store.url, durability=store.durability, migrate=False)
        if scheme == "sqlite" and not await asyncio.to_thread(Path(path).exists):
            return [Finding(Level.WARNING, "store", f"{path} does not exist yet", "The first start creates it.")]
        await rows.open()
    except OSError as error:  # the file cannot be looked at, for example in another user's folder
        message = f"{error.filename or scheme}: {error.strerror}"
        return [Finding(Level.FAULT, "store", message, "Run this as the user of the store.")]
    except (AntiphonError, SettingsError) as error:
        return [
            Finding(Level.FAULT, "store", str(error), "'antiphon store migrate' brings an older schema up to date.")
        ]
    try:
        await rows.ready()
        return [Finding(Level.OK, "store", f"{scheme}, durability {rows.durability}")]
    except AntiphonError as error:
        return [Finding(Level.FAULT, "store", str(error))]
    finally:
        await rows.close()


async def of_profiles(loaded: Settings) -> list[Finding]:
    """Loads each model profile, and asks its engine whether it is ready."""
    from antiphon_translator.models import profiles

    folder = loaded.translator.profiles
    found = []
    for file in sorted(folder.glob("*.toml")) if folder is not None else ():
        try:
            reason = await reason_of(profiles.load(file))
        except SettingsError as error:
            found.append(Finding(Level.FAULT, file.stem, str(error), f"Run 'antiphon profile check {file}'."))
            continue
        level = Level.FAULT if reason else Level.OK
        found.append(Finding(level, file.stem, reason or "its engine is ready"))
    return found


async def of_server(base_url: str) -> list[Finding]:
    """Asks a running server for its models, its release and its clock. Warns if no server answers."""
    async with Api.open(base_url) as server:
        try:
            release, date = await server.version()
            models = await server.models()
        except ApiError as error:
            remedy = "Start it with 'antiphon up', or name another with --url." if error.status == 0 else ""
            return [Finding(Level.WARNING if error.status == 0 else Level.FAULT, "server", str(error), remedy)]
    return [
        Finding(Level.OK, "server", f"{base_url} serves {', '.join(models)}"),
        *_release(release),
        *_clock(date),
    ]


def _release(release: str) -> Iterator[Finding]:
    own = VERSION
    if release and release != own:
        yield Finding(Level.WARNING, "release", f"the server has {release}, this is {own}", "Use the same release.")


def _clock(date: str) -> Iterator[Finding]:
    """Warns of a clock that differs from the server's, or of a `Date` header that cannot be read. This machine may
    be a second further ahead, because the header is rounded down to seconds."""
    try:
        ahead_s = time.time() - parsedate_to_datetime(date).timestamp() if date else 0.0
    except (ValueError, OverflowError):
        yield Finding(Level.WARNING, "clock", f"the server's 'Date' header cannot be read: {date!r}")
        return
    if not -CLOCK_S_MAX <= ahead_s <= CLOCK_S_MAX + 1:
        message = f"this machine is {ahead_s:+.0f} s from the server"
        yield Finding(Level.WARNING, "clock", message, "Keys and sealed content expire by the clock: run NTP on both.")
