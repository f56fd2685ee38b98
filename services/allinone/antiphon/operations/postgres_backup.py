"""Backups of a PostgreSQL store with PostgreSQL's own tools.

`pg_dump` writes an archive of the store's schema from one snapshot, which blocks no writer. `pg_restore` reads it in
one transaction, so that an archive that is cut off or damaged restores nothing.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from antiphon.operations.files import OperationError, new_file
from antiphon_store.backends.postgres.faults import translate
from antiphon_store.backends.postgres.schema import SCHEMA
from antiphon_store.backends.postgres.server import conninfo_of
from antiphon_store.rows.maintenance import Progress

MAGIC = b"PGDMP"  # the first bytes of an archive
PIECE_BYTES = 2**20
COMPRESSION_LEVEL = 1


async def backup(
    url: str, file: Path, on_progress: Progress, *, schema: str = SCHEMA, piece_bytes: int = PIECE_BYTES
) -> None:
    """Writes a snapshot of everything that was committed before the call, while clients read and write. Raises
    OSError, OperationError, StoreUnavailable."""
    with new_file(file) as draft:
        if await _has_rows(url, schema) is None:
            raise OperationError("There is no store in this database.")
        options = ["--format=custom", f"--compress={COMPRESSION_LEVEL}", f'--schema="{schema}"']
        async with _running("pg_dump", url, options, limit=piece_bytes) as process:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            with draft.open("wb") as archive:
                while piece := await process.stdout.read(piece_bytes):
                    archive.write(piece)
                    on_progress(1)


async def restore(url: str, file: Path, on_progress: Progress, *, schema: str = SCHEMA) -> None:
    """Fills an empty database from a backup. OperationError: the database has data, or the file is not a backup of
    PostgreSQL, or it is damaged. Raises OSError and StoreUnavailable, too."""
    with file.open("rb") as archive:
        if archive.read(len(MAGIC)) != MAGIC:
            raise OperationError(f"{file} is not a backup of a PostgreSQL store.")
    has_rows = await _has_rows(url, schema)
    if has_rows:
        raise OperationError("The database holds data already. Restore into an empty one.")
    options = ["--single-transaction", "--exit-on-error"]
    if has_rows is not None:  # tables of a store that was started and never used
        options += ["--clean", "--if-exists"]
    async with _running("pg_restore", url, [*options, str(file)]):
        on_progress(1)


async def _has_rows(url: str, schema: str) -> bool | None:
    """Whether a store has rows; None: there is no store. StoreUnavailable."""
    table = sql.Identifier(schema, "stored_row")
    try:
        async with await AsyncConnection.connect(conninfo_of(url), autocommit=True) as connection:
            found = await connection.execute("SELECT to_regclass(%s)", [table.as_string(connection)])
            if (await found.fetchone() or (None,))[0] is None:
                return None
            rows = await connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(table))
            return await rows.fetchone() is not None
    except psycopg.Error as error:
        raise translate(error) from error


@asynccontextmanager
async def _running(tool: str, url: str, options: Sequence[str], *, limit: int = PIECE_BYTES) -> AsyncIterator[Process]:
    """Runs one of PostgreSQL's tools, and waits for its end. `limit`: the most bytes of its output that are read ahead.
    OperationError: it is not installed, or it failed, with the last line of its messages."""
    given = conninfo_to_dict(conninfo_of(url))
    password = given.pop("password", None)  # not in the command line, which every user of the machine can read
    secrets = {"PGPASSWORD": str(password)} if password is not None else {}
    command = [tool, "--no-owner", "--no-privileges", f"--dbname={make_conninfo('', **given)}", *options]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=PIPE, limit=limit, env={**os.environ, **secrets}
        )
    except FileNotFoundError as error:
        text = f"{tool} is not installed. Install PostgreSQL's client tools, of the server's version or a newer one."
        raise OperationError(text) from error
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    messages = asyncio.ensure_future(process.stderr.read())
    try:
        yield process
        said = (await messages).decode(errors="replace").strip()
        if await process.wait():
            raise OperationError(f"{tool} failed: {said.splitlines()[-1] if said else process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await messages
