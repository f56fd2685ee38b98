"""`antiphon keys create | list | revoke`: manages the API keys of the edge.

The files are those of the settings edge.keys_file and edge.keys_pepper_file. A running edge sees a change within a
second or two. Each change replaces the file as a whole, so that an edge never reads a partial file. Comments stay.
A lock makes concurrent changes wait for each other. Only the owner can read a new file. A changed file keeps
its owner and its mode, because the edge may run as another user.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import stat
import sys
import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from antiphon.settings_flags import add_settings, load
from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.ids import is_reserved_tenant, is_tenant
from antiphon_core.rpc.watched import read_text
from antiphon_edge.callers import api_keys
from antiphon_edge.callers.api_keys import ApiKey
from antiphon_edge.settings import EdgeSettings

DAY_MS = 24 * 3_600_000
EXPIRES_DAYS_MAX = 10 * 366

_ID_OR_KEY = re.compile(r"(?:ak_)?([0-9a-f]{12})(?:_[0-9a-f]*|_\*+)?")
_COLUMNS = ("ID", "TENANT", "STATE", "CREATED", "EXPIRES", "NAME")
_FLAGS = ("--edge-keys-file", "--edge-keys-pepper-file")


def declare(parser: argparse.ArgumentParser) -> None:
    """Each subcommand sets `options.keys` to its function, which takes (options, edge settings, clock)."""
    subcommands = parser.add_subparsers(required=True, metavar="WHAT")
    create_one = subcommands.add_parser("create", help="make a key and print it; it is never shown again")
    create_one.add_argument("--tenant", required=True, help="the tenant whose data the key gives access to")
    create_one.add_argument("--name", default="", help="a name for the key, shown by 'list'")
    create_one.add_argument("--expires-days", type=int, metavar="D", help="after how many days it stops working")
    create_one.set_defaults(keys=create)
    list_all = subcommands.add_parser("list", help="list the keys, without their secrets")
    list_all.set_defaults(keys=list_keys)
    revoke_one = subcommands.add_parser("revoke", help="make a key stop working")
    revoke_one.add_argument("id", help="the key's id: 'list' shows it, and a key has it after 'ak_'")
    revoke_one.set_defaults(keys=revoke)
    for command in (create_one, list_all, revoke_one):
        add_settings(command, only=lambda setting: setting.flag in _FLAGS)
        command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    options.keys(options, load(options).edge, SystemClock())
    return 0


def create(options: argparse.Namespace, edge: EdgeSettings, clock: Clock) -> None:
    """Creates a key. Standard output has only the key, for use as `KEY=$(antiphon keys create --tenant acme)`."""
    _check_draft(options)
    keys_file, pepper_file = _files(edge)
    with _changing(keys_file):
        text = _text_of(keys_file)
        kept = api_keys.parse_keys(text, str(keys_file))
        pepper = _pepper(pepper_file, may_make=not kept)
        secret, key = _new_key(options, pepper, kept, clock.now_ms())
        before = text.rstrip("\n") or api_keys.HEADER
        _replace_file(keys_file, f"{before}\n{key.line()}\n")
    print(secret)
    print(f"Key {key.id} of tenant '{key.tenant}'. It is not shown again: keep it safe.", file=sys.stderr)


def _new_key(options: argparse.Namespace, pepper: bytes, taken: Container[str], now_ms: int) -> tuple[str, ApiKey]:
    """A new key, and its entry for the keys file, which holds a digest of the key only."""
    key_id = api_keys.new_key_id()
    while key_id in taken:
        key_id = api_keys.new_key_id()
    secret = api_keys.new_key(key_id)
    expires_at_ms = None if options.expires_days is None else now_ms + options.expires_days * DAY_MS
    return secret, ApiKey(
        id=key_id,
        tenant=options.tenant,
        digest=api_keys.digest(pepper, secret),
        created_at_ms=now_ms,
        expires_at_ms=expires_at_ms,
        name=options.name.strip(),
    )


def list_keys(_options: argparse.Namespace, edge: EdgeSettings, clock: Clock) -> None:
    keys_file, _pepper_file = _files(edge)
    keys = api_keys.parse_keys(_text_of(keys_file), str(keys_file)).values()
    rows = [_COLUMNS, *(_row(key, clock.now_ms()) for key in keys)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def revoke(options: argparse.Namespace, edge: EdgeSettings, clock: Clock) -> None:
    keys_file, _pepper_file = _files(edge)
    wanted = _id_in(options.id)
    if not keys_file.exists():
        raise SettingsError(f"There is no key '{wanted}': {keys_file} does not exist.")
    with _changing(keys_file):
        text = _text_of(keys_file)
        key = api_keys.parse_keys(text, str(keys_file)).get(wanted)
        if key is None:
            raise SettingsError(f"There is no key '{wanted}' in {keys_file}. 'antiphon keys list' shows what there is.")
        if key.revoked_at_ms is not None:
            print(f"Key {key.id} was revoked before, at {api_keys.show_time(key.revoked_at_ms)}.")
            return
        lines = text.split("\n")
        number = next(n for n, line in api_keys.key_lines(text) if line.split()[0] == wanted)
        lines[number - 1] = replace(key, revoked_at_ms=clock.now_ms()).line()
        _replace_file(keys_file, "\n".join(lines))
    print(f"Key {key.id} of tenant '{key.tenant}' is revoked.")


def _check_draft(options: argparse.Namespace) -> None:
    if not is_tenant(options.tenant) or is_reserved_tenant(options.tenant):
        raise SettingsError(
            "--tenant must be 1 to 128 printable ASCII characters without spaces that do not begin with 'antiphon.'."
        )
    if not api_keys.is_key_name(options.name.strip()):
        raise SettingsError(f"--name must be at most {api_keys.NAME_CHARS_MAX} printable characters.")
    if options.expires_days is not None and not 1 <= options.expires_days <= EXPIRES_DAYS_MAX:
        raise SettingsError(f"--expires-days must be from 1 to {EXPIRES_DAYS_MAX}.")


def _id_in(given: str) -> str:
    """The id in an argument that may be an id or a whole key. The error does not repeat it, since it may be secret."""
    form = _ID_OR_KEY.fullmatch(given.strip())
    if form is None:
        raise SettingsError("A key's id is 12 hexadecimal digits; 'antiphon keys list' shows them.")
    return form.group(1)


def _files(edge: EdgeSettings) -> tuple[Path, Path]:
    """The keys file and the pepper file. Symbolic links are resolved, so that a change replaces the file and not the
    link."""
    if edge.keys_file is None or edge.keys_pepper_file is None:
        raise SettingsError(
            "Say where the keys are: --edge-keys-file and --edge-keys-pepper-file, or ANTIPHON_EDGE_KEYS_FILE and "
            "ANTIPHON_EDGE_KEYS_PEPPER_FILE."
        )
    return edge.keys_file.resolve(), edge.keys_pepper_file.resolve()


def _pepper(path: Path, *, may_make: bool) -> bytes:
    """The pepper. It is made only while there are no keys, because a new pepper would invalidate all older keys."""
    if not path.exists() and may_make:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(path, api_keys.new_pepper() + "\n")
    return api_keys.read_peppers(path)[0]


def _text_of(path: Path) -> str:
    return read_text(path, "the keys file") if path.exists() else ""


def _row(key: ApiKey, now_ms: int) -> tuple[str, ...]:
    created, expires = api_keys.show_time(key.created_at_ms), api_keys.show_time(key.expires_at_ms)
    return key.id, key.tenant, key.state(now_ms), created, expires, key.name


@contextmanager
def _changing(keys_file: Path) -> Iterator[None]:
    """Holds the lock for one change. SettingsError: an OSError prevented the change. Its message names the file."""
    try:
        keys_file.parent.mkdir(parents=True, exist_ok=True)
        with _lock(keys_file.parent):
            yield
    except OSError as error:
        reason = f"{error.filename or keys_file}: {error.strerror or error}"
        raise SettingsError(f"The keys cannot be changed: {reason}.") from error


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Locks the folder. A lock on the file would end when the file is replaced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace_file(path: Path, text: str) -> None:
    """Replaces a file atomically by one with this text, and syncs it to the disk."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _take_owner_and_mode(path, descriptor)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _take_owner_and_mode(path: Path, descriptor: int) -> None:
    """Gives a draft the owner and the mode of the file that it replaces, so that the edge can still read it."""
    if not path.exists():
        return
    status = path.stat()
    try:
        os.fchown(descriptor, status.st_uid, status.st_gid)
    except PermissionError as error:
        raise SettingsError(f"{path} has another owner or group. Run this as its owner.") from error
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _sync_folder(folder: Path) -> None:
    """Syncs a folder, so that the renaming of a file in it is durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
