"""Records the answers of openai-harmony anew: `make goldens`."""

from __future__ import annotations

import json
import sys

from tests.support.harmony import oracle
from tests.support.harmony.recording import FILE, asked


def main() -> None:
    if missing := oracle.missing():
        sys.exit(missing)
    FILE.write_text(json.dumps(asked(), ensure_ascii=False, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main()
