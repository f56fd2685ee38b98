"""The `antiphon` command, also as `python -m antiphon`."""

from __future__ import annotations

import sys

from antiphon_core.line_output import open_standard_streams


def main() -> int:
    """Runs the command line and returns the exit status. If a package is missing, prints how to install it."""
    open_standard_streams()
    from antiphon.cli import main as run

    try:
        return run()
    except ModuleNotFoundError as error:
        print(f"antiphon: the package '{error.name}' is missing: pip install 'antiphon'", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
