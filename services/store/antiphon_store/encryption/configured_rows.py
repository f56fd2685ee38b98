"""Makes the row backend of a store from its settings: sealed if they name a file of keys.

A store that was ever opened with keys holds a marker: a sealed row of a tenant of Antiphon's own. A process without
keys, or with wrong ones, cannot read the marker and does not start. Otherwise it would return sealed bytes to clients,
or write plain ones.
"""

from __future__ import annotations

from pathlib import Path

from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_core.rpc.watched import Watched
from antiphon_core.sealing_keys import KeySource, SealingKeys
from antiphon_store.backends import registry
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import Applied, Get, Kind, Partition, Payload, Program, Put, Ref
from antiphon_store.settings import StoreSettings

SETTING = "store.encryption_keys_file"
MARKER_TENANT = "antiphon.encryption"
MARKER = Partition(MARKER_TENANT, "keys")
_ROW = Ref(Kind.QUOTA, "keys")
_TEXT = b"This store is sealed."


def rows_of(settings: StoreSettings, *, migrate: bool = True, clock: Clock | None = None) -> RowBackend:
    """The backend that the settings name, not yet opened. SettingsError: the URL is unknown, or the file of keys cannot
    be used."""
    rows = registry.row_backend(settings.url, durability=settings.durability, migrate=migrate, clock=clock)
    path = settings.encryption_keys_file
    if path is None:
        return rows
    keys = Watched([path], _KeysFile(path).read, setting=SETTING, grace_s=settings.secrets_grace_s)
    return seal_rows(rows, keys)


class _KeysFile:
    """The file of keys. An id stands for one key for ever: what it has sealed could not be read with another one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, bytes] = {}

    def read(self) -> SealingKeys:
        """SettingsError: the file is unusable, or has another key under an id that was read before."""
        found = SealingKeys.read(self._path, "the encryption keys of the store")
        for key_id, key in found.keys.items():
            if self._known.setdefault(key_id, key) != key:
                raise SettingsError(f"{self._path} has another key under the id {key_id} than before: use a new id.")
        return found


def seal_rows(rows: RowBackend, keys: KeySource) -> RowBackend:
    """Wraps a backend, so that its database holds sealed content."""
    try:  # a store without keys needs no library for them
        from antiphon_store.encryption.payload_cipher import PayloadCipher
        from antiphon_store.encryption.sealed_rows import SealedRows
    except ImportError as error:
        raise SettingsError(f"{SETTING} needs a library: pip install 'antiphon-server[encryption]'.") from error
    return SealedRows(rows, PayloadCipher(keys))


async def require_readable(rows: RowBackend, settings: StoreSettings, *, writes: bool = True) -> None:
    """Checks that open rows can be read with the settings' keys. With `writes` and keys, the marker is written, sealed
    with the newest key.

    SettingsError: the keys are missing or wrong. StoreUnavailable: the database cannot be reached, or it is full and
    has no marker yet."""
    try:
        found = await rows.transact(MARKER, Program(reads=[Get(_ROW, Payload.ALL)]))
    except (StoreUnavailable, InternalError) as error:
        if isinstance(error, StoreUnavailable) and "missing_key" not in error.facts:
            raise
        raise SettingsError(
            f"{SETTING} does not hold the key that this store is sealed with, or has another key under its id."
        ) from error
    assert isinstance(found, Applied)  # noqa: S101 - there are no guards
    row = found.answers[0]
    if settings.encryption_keys_file is None and row is not None:
        raise SettingsError(f"This store is sealed: set {SETTING} to the file with its keys.")
    if settings.encryption_keys_file is not None and writes:
        await _mark(rows, is_marked=row is not None)


async def _mark(rows: RowBackend, *, is_marked: bool) -> None:
    """Writes the marker. A full store that has one starts without a new one, so that its responses can be deleted."""
    try:
        await rows.transact(MARKER, Program(changes=[Put(_ROW, {"v": 1}, body=_TEXT)]))
    except StoreUnavailable as error:
        if not (is_marked and error.is_full):
            raise
