"""The rules of `rules.yaml` for a Prometheus without an operator. `make docs` writes them for compose.yaml."""

from __future__ import annotations

from pathlib import Path

import yaml

RULES = Path(__file__).with_name("rules.yaml")
PLAIN = Path(__file__).parents[3] / "containers" / "prometheus" / "rules.yaml"
HEAD = "# Written by `make docs` from k8s/components/prometheus/rules.yaml.\n"


def text() -> str:
    spec = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]
    return HEAD + yaml.safe_dump(spec, sort_keys=False, width=120)


if __name__ == "__main__":
    PLAIN.write_text(text(), encoding="utf-8")
