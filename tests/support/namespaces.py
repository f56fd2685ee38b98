"""Mount namespaces for processes of tests."""

from __future__ import annotations

import os

IS_ROOT = os.geteuid() == 0
UNSHARE_MOUNTS = ("unshare", "--mount", *(() if IS_ROOT else ("--user", "--map-current-user", "--keep-caps")))
"""The beginning of a command line that runs in a mount namespace of its own. Root of this machine mounts as it is.
Anybody else may in a user namespace, as the user that they are."""
