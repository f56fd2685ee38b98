"""The views for operators of SQL databases: one for each kind of rows, with fields as columns.

The tables of both databases keep fields as JSON. A view names them: `SELECT state, count(*) FROM antiphon_jobs GROUP BY
state`. Nothing of Antiphon reads a view. Quotas have none: SQLite keeps them in memory only.

A change of VIEWS needs a migration of each database that runs `script` again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from antiphon_store.rows.model import Kind


class Column(NamedTuple):
    """A column from a field, or from an element of a field that is an array."""

    form: str
    field: str
    element: int | None = None


class View(NamedTuple):
    kind: Kind
    about: str
    columns: Mapping[str, Column]


def text(field: str, element: int | None = None) -> Column:
    return Column("text", field, element)


def number(field: str) -> Column:
    return Column("number", field)


def flag(field: str) -> Column:
    return Column("flag", field)


def time(field: str, element: int | None = None) -> Column:
    return Column("time", field, element)


JOB_STATE = Column("job_state", "ended", 0)

VIEWS: Mapping[str, View] = {
    "antiphon_responses": View(
        Kind.NODE,
        "responses, also deleted ones that others continue; items that clients added to a conversation have `is_added`",
        {
            "parent_id": text("parent"),
            "session_id": text("session"),
            "status": text("status"),
            "version": number("version"),
            "depth": number("depth"),
            "size_bytes": number("size"),
            "is_deleted": flag("deleted"),
            "is_added": flag("added"),
            "created_at": time("created"),
            "updated_at": time("updated"),
            "expires_at": time("expires"),
        },
    ),
    "antiphon_sessions": View(
        Kind.SESSION,
        "sessions, their last response and their lease",
        {
            "head_id": text("head"),
            "last_token": number("fence"),
            "holder": text("holder"),
            "lease_until": time("lease_until"),
            "leased_at": time("stamp"),
            "is_over": flag("is_over"),
        },
    ),
    "antiphon_conversations": View(
        Kind.CONVERSATION,
        "conversations; `metadata` is sealed in a store with encryption keys",
        {
            "metadata": text("metadata"),
            "version": number("version"),
            "created_at": time("created"),
            "expires_at": time("expires"),
        },
    ),
    "antiphon_event_logs": View(
        Kind.LOG,
        "event logs by response",
        {
            "next_event": number("next"),
            "size_bytes": number("size"),
            "is_closed": flag("closed"),
            "expires_at": time("until"),
        },
    ),
    "antiphon_event_batches": View(
        Kind.BATCH,
        "appends to event logs; the id has the response and the first event",
        {"events": number("count"), "is_terminal": flag("terminal")},
    ),
    "antiphon_jobs": View(
        Kind.JOB,
        "jobs by response; a job whose lease ran out is `queued` until a worker or a sweep looks at it",
        {
            "queue": text("queue"),
            "state": JOB_STATE,
            "attempts": number("attempts"),
            "max_attempts": number("max_attempts"),
            "holder": text("holder"),
            "lease_until": time("lease_until"),
            "available_at": time("available"),
            "is_cancel_requested": flag("cancel"),
            "reason": text("ended", 1),
            "ended_at": time("ended", 2),
        },
    ),
    "antiphon_idempotency_keys": View(
        Kind.KEY,
        "idempotency keys, and the responses that have them",
        {
            "response_id": text("response"),
            "is_bound": flag("bound"),
            "claimed_until": time("claimed_until"),
            "expires_at": time("expires"),
        },
    ),
    "antiphon_prompts": View(
        Kind.PROMPT,
        "stored prompts (`all/` and the id), their versions, and `count`",
        {"latest_version": number("latest"), "created_at": time("created"), "prompts": number("prompts")},
    ),
    "antiphon_approvals": View(
        Kind.APPROVAL,
        "calls that wait for a person's answer, and those whose answer a response has used",
        {
            "response_id": text("response"),
            "used_by": text("used_by"),
            "is_approved": flag("is_approved"),
            "created_at": time("created"),
            "expires_at": time("expires"),
        },
    ),
    "antiphon_tenants_in_line": View(
        Kind.LINE,
        "tenants with background responses in the queue, as ids",
        {"places": number("places"), "due_at": time("at")},
    ),
    "antiphon_session_pointers": View(
        Kind.POINTER,
        "sessions that a fork gave a head in another tree",
        {"other_tree": text("tree")},
    ),
}


class Dialect(NamedTuple):
    """How a database reads one value of a row's JSON, by the form of its column, and where the rows of a kind are."""

    value: Callable[[Column], str]
    forms: Mapping[str, str]
    source: Callable[[Kind], str]


def _postgresql_value(column: Column) -> str:
    at = "" if column.element is None else f"-> '{column.field}' "
    return f"(fields::jsonb {at}->> {column.element if at else repr(column.field)})"


def _sqlite_value(column: Column) -> str:
    at = "" if column.element is None else f"[{column.element}]"
    return f"json_extract(CAST(fields AS TEXT), '$.{column.field}{at}')"


POSTGRESQL = Dialect(
    _postgresql_value,
    {
        "text": "nullif({0}, '')",
        "number": "{0}::bigint",
        "flag": "coalesce({0} IN ('1', 'true'), false)",
        "time": "to_timestamp(nullif({0}::bigint, 0) / 1000.0)",
        "job_state": "coalesce({0}, CASE WHEN (fields::jsonb ->> 'lease_until')::bigint > "
        "extract(epoch FROM clock_timestamp()) * 1000 THEN 'running' ELSE 'queued' END)",
    },
    lambda kind: f"tenant, tree, id, {{columns}}\nFROM stored_row WHERE kind = '{kind}'",
)
SQLITE = Dialect(
    _sqlite_value,
    {
        "text": "nullif({0}, '')",
        "number": "{0}",
        "flag": "coalesce({0} IN (1, 'true'), 0)",
        "time": "strftime('%Y-%m-%d %H:%M:%f', nullif({0}, 0) / 1000.0, 'unixepoch')",
        "job_state": "coalesce({0}, CASE WHEN json_extract(CAST(fields AS TEXT), '$.lease_until') > "
        "(julianday('now') - 2440587.5) * 86400000 THEN 'running' ELSE 'queued' END)",
    },
    lambda kind: (
        "tenant, tag AS tree, id, {columns}\nFROM node JOIN tree ON number = node.tree"
        if kind is Kind.NODE
        else f"tenant, tag AS tree, id, {{columns}}\nFROM row JOIN tree ON number = row.tree WHERE kind = '{kind}'"
    ),
)


def script(dialect: Dialect) -> str:
    """The statements that make all views, in place of those of an older release."""
    return "".join(_statements(dialect, name, view) for name, view in VIEWS.items())


def _statements(dialect: Dialect, name: str, view: View) -> str:
    columns = [
        f"{dialect.forms[column.form].format(dialect.value(column))} AS {each}" for each, column in view.columns.items()
    ]
    body = dialect.source(view.kind).format(columns=",\n    ".join(columns))
    return f"DROP VIEW IF EXISTS {name};\nCREATE VIEW {name} AS SELECT {body};\n"


_HEAD = """\
# Views of SQL databases

PostgreSQL (in the schema `antiphon`) and SQLite have a view for each kind of rows, to look at a store by hand:

    SELECT queue, state, count(*) FROM antiphon_jobs WHERE tenant = 'acme' GROUP BY 1, 2

Only read them. Name the tenant where you can: without one, a query reads the whole table. Times are UTC, of the type
`timestamptz` in PostgreSQL and text in SQLite. Content is left out; sealed fields are shown as they are stored. A later
release may add columns.

| view | rows | columns besides `tenant`, `tree`, `id` |
|---|---|---|"""


def document() -> str:
    """The content of docs/reference/store-views.md."""
    lines = [_HEAD]
    for name, view in VIEWS.items():
        columns = ", ".join(f"`{each}`" for each in view.columns)
        lines.append(f"| `{name}` | {view.about} | {columns} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
