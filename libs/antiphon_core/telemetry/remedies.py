"""Advice for operators about errors in the log. Every line of level ERROR names one: `extra=remedies.REPORT`."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core.telemetry.log_fields import REMEDY

Remedy = Mapping[str, str]
"""The fields that a call of `log` adds."""


def _remedy(text: str) -> Remedy:
    return {REMEDY: text}


REPORT = _remedy("This is a fault of Antiphon: report it with this line and the release (antiphon version).")
CHECK_STORE = _remedy(
    "Look whether the store is ready (its log, /v1/health/ready of the edge) and has room; what failed is tried again "
    "by clients or workers."
)
CHECK_DATABASE = _remedy(
    "Look at the database: whether it runs, has disk and memory left, and lets the store in. The store tries again by "
    "itself."
)
RESTORE_DATA = _remedy(
    "Stored bytes have changed on disk: check the disk, and restore the database from a backup or delete this response."
)
RAISE_FILE_LIMIT = _remedy("Raise the limit of open files (ulimit -n, LimitNOFILE), or run more edges.")
CHECK_FILE = _remedy("Correct the file that is named; it is read again when it changes, without a restart.")
CHECK_WORKER = _remedy(
    "The process is started again by itself. If it ends again and again, look at its lines before this one, and at "
    "memory limits."
)
