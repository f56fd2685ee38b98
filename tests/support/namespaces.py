"""Mount namespaces for processes of tests."""

from __future__ import annotations

import os

IS_ROOT = os.geteuid() == 0
UNSHARE_MOUNTS = ("unshare", "--mount", *(() if IS_ROOT else ("--user", "--map-current-user", "--keep-caps")))
"""The start of a command line that runs in its own mount namespace. Root may mount directly; other users need a user
namespace, in which they keep their user id."""
