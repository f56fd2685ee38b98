"""The metadata of calls, for both ends: a client need not import a server for it. The ids that they
carry, too, are in telemetry/correlation.py."""

from __future__ import annotations

TENANT_KEY = "antiphon-tenant"
DEFAULT_TENANT = "default"
"""The tenant of a call that names none."""
