"""`python -m antiphon`."""

from antiphon.cli import main

raise SystemExit(main())
