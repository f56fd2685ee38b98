"""What calls carry beside their messages, for both ends: a client need not import a server for it."""

from __future__ import annotations

TENANT_KEY = "antiphon-tenant"
REQUEST_ID_KEY = "x-request-id"
DEFAULT_TENANT = "default"
"""Whose a call is that names no tenant."""
