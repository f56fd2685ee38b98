"""The version of this release, which all services, packages and the command line have in common."""

from __future__ import annotations

VERSION = "0.1.0"
