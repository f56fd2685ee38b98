"""The tenant in the metadata of RPCs, for clients and servers. telemetry/correlation.py has the other keys."""

from __future__ import annotations

TENANT_KEY = "antiphon-tenant"
DEFAULT_TENANT = "default"
"""The tenant of a call that names none."""
