"""The maintenance commands: `antiphon store migrate | backup | restore | export | import | erase | verify | stats`.

Each opens the store's database directly, also while a store is running on it. The exit status is 0 after success, 1
after a failure or if `verify` found damage, and 2 for mistakes in the arguments or for `erase` without --yes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon import event_loop
from antiphon.progress import ProgressLine
from antiphon.settings_flags import add_settings, load
from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError
from antiphon_store.settings import StoreSettings

if TYPE_CHECKING:
    from antiphon_store.rows.backend import RowBackend
    from antiphon_store.rows.maintenance import Maintenance

_USED = ("--store-url", "--store-durability", "--store-encryption-keys-file")
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "FILE": {"metavar": "FILE", "type": Path, "help": "the file"},
    "--tenant": {"required": True, "help": "the tenant"},
    "--of": {"metavar": "TENANT", "dest": "tenant", "help": "of this tenant only"},
    "--merge": {"action": "store_true", "help": "the tenant may have data: rows that are there stay as they are"},
    "--yes": {"action": "store_true", "help": "erase the rows; without it they are only counted"},
}

_Run = Callable[[argparse.Namespace, StoreSettings], Coroutine[Any, Any, int]]


def declare(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="WHAT")
    for name, (run, text, arguments) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for each in arguments.split():
            command.add_argument("file" if each == "FILE" else each, **_ARGUMENTS[each])
        add_settings(command, only=lambda setting: setting.flag in _USED)
        command.set_defaults(run=_run, command=run)


def _run(options: argparse.Namespace) -> int:
    """Runs a command and returns its exit status. An error is printed as one line."""
    from antiphon.operations.files import OperationError

    store = load(options).store
    if store.url.startswith("memory:"):
        raise SettingsError("memory:// keeps nothing. Name the store with --store-url or ANTIPHON_STORE_URL.")
    try:
        with _short_logs():
            status: int = event_loop.run(options.command(options, store))
            return status
    except (OperationError, AntiphonError) as error:
        print(f"antiphon: {error}", file=sys.stderr)
    except OSError as error:
        print(f"antiphon: {error.filename or 'the file'}: {error.strerror or error}", file=sys.stderr)
    return 1


async def _migrate(_options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon_store.backends.registry import row_backend  # imported late: --help needs no database drivers

    rows = row_backend(store.url, durability=store.durability)
    await rows.open()
    await rows.close()
    print("The store's schema is up to date.")
    return 0


async def _backup(options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon.operations.backups import backups_of

    with _progress("blocks") as progress:
        await backups_of(store.url).backup(options.file, progress)
    print(f"{options.file} is a backup of the store, as it was when the command began.")
    return 0


async def _restore(options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon.operations.backups import backups_of

    with _progress("blocks") as progress:
        await backups_of(store.url).restore(options.file, progress)
    print(f"The store is what {options.file} was.")
    return 0


async def _export(options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon.operations.exporting import export
    from antiphon.operations.files import new_file

    async with _open_rows(store) as (rows, maintenance):
        with _progress("rows") as progress, new_file(options.file) as draft, draft.open("wb") as file:
            count = await export(rows, maintenance, options.tenant, file.write, progress)
    print(f"{options.file} holds {count:,} rows of tenant '{options.tenant}'.")
    return 0


async def _import(options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon.operations.importing import import_lines

    async with _open_rows(store, writes=True) as (rows, maintenance):
        with _progress("rows") as progress, options.file.open("rb") as lines:
            imported = await import_lines(rows, maintenance, lines, progress, may_merge=options.merge)
    print(f"{imported.written:,} rows were written, {imported.kept:,} were there before.")
    return 0


async def _erase(options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon.operations.statistics import statistics

    async with _open_rows(store) as (_rows, maintenance):
        with _progress("rows") as progress:
            amounts = await statistics(maintenance, options.tenant, progress)
        count = sum(each.rows for each in amounts.values())
        if not options.yes:
            print(f"Tenant '{options.tenant}' has {count:,} rows. Stop its callers, then repeat this with --yes.")
            return 2
        with _progress("rows") as progress:
            async for step in maintenance.erase(options.tenant):
                progress(step)
    print(f"{count:,} rows of tenant '{options.tenant}' are erased. Backups and exports still hold them.")
    return 0


async def _verify(options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon.operations.verifying import verify

    damaged = hints = 0
    async with _open_rows(store) as (rows, maintenance):
        with _progress("rows") as progress:
            async for is_damage, tenant, text in verify(rows, maintenance, options.tenant, progress):
                damaged, hints = damaged + is_damage, hints + (not is_damage)
                progress.end()
                print(f"{'damage' if is_damage else 'hint'}: tenant {tenant}: {text}")
    print(f"{damaged:,} damaged, {hints:,} hints. A hint is a name whose row is missing; it does no harm.")
    return 1 if damaged else 0


async def _stats(options: argparse.Namespace, store: StoreSettings) -> int:
    from antiphon.operations.statistics import statistics

    async with _open_rows(store) as (_rows, maintenance):
        with _progress("rows") as progress:
            amounts = await statistics(maintenance, options.tenant, progress)
    lines = [("TENANT", "KIND", "ROWS", "BYTES")]
    lines += [(tenant, kind, f"{rows:,}", f"{size:,}") for (tenant, kind), (rows, size) in amounts.items()]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for tenant, kind, rows, size in lines:
        first = f"{tenant.ljust(widths[0])}  {kind.ljust(widths[1])}"
        print(f"{first}  {rows.rjust(widths[2])}  {size.rjust(widths[3])}")
    return 0


_COMMANDS: dict[str, tuple[_Run, str, str]] = {
    "migrate": (_migrate, "bring the database's schema to this release's version", ""),
    "backup": (_backup, "copy a SQLite or PostgreSQL store into a file while it is in use", "FILE"),
    "restore": (_restore, "fill an empty SQLite or PostgreSQL store from a backup", "FILE"),
    "export": (_export, "write all rows of one tenant as JSON lines, which any database can import", "--tenant FILE"),
    "import": (_import, "write the rows of an export into the store", "FILE --merge"),
    "erase": (_erase, "delete all data of one tenant permanently", "--tenant --yes"),
    "verify": (_verify, "look for damaged rows, and for names whose row is missing", "--of"),
    "stats": (_stats, "count rows and bytes by tenant and kind", "--of"),
}


@asynccontextmanager
async def _open_rows(store: StoreSettings, *, writes: bool = False) -> AsyncIterator[tuple[RowBackend, Maintenance]]:
    """Opens the rows of an existing store, and its maintenance. `writes`: the command writes content, so a store that
    is to be encrypted is marked as such."""
    from antiphon_store.encryption import configured_rows
    from antiphon_store.rows.maintenance import MaintainedRows

    scheme, _, path = store.url.partition(":///")
    if scheme == "sqlite" and not await asyncio.to_thread(Path(path).exists):
        raise SettingsError(f"There is no file {path}. 'antiphon store migrate' makes an empty store.")
    rows = configured_rows.rows_of(store, migrate=False)
    if not isinstance(rows, MaintainedRows):
        raise SettingsError("This command does not work with this database: its backend has no maintenance.")
    await rows.open()
    try:
        await configured_rows.require_readable(rows, store, writes=writes)
        yield rows, rows.maintenance
    finally:
        await rows.close()


@contextmanager
def _progress(unit: str) -> Iterator[ProgressLine]:
    progress = ProgressLine(unit)
    try:
        yield progress
    finally:
        progress.end()


@contextmanager
def _short_logs() -> Iterator[None]:
    """Logs the warnings of a database on one line each, without a traceback."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_OneLine())
    log = logging.getLogger("antiphon_store")
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = True
        log.removeHandler(handler)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(record.getMessage().split())
