"""The version of this release: of every service, every package and the command line."""

from __future__ import annotations

VERSION = "0.1.0"
