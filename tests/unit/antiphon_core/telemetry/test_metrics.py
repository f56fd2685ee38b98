from __future__ import annotations

import ast
import re
from pathlib import Path

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.instruments import Instrument

ROOT = Path(__file__).parents[4]
SOURCES = [path for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py")]
IDS = {"tenant", "response_id", "request_id", "job_id", "session_id", "key", "path", "user"}


def test_every_name_is_declared_once_in_the_projects_form() -> None:
    names = [declared.name for declared in metrics.declarations()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"antiphon_[a-z_]+", name) for name in names)


def test_every_meaning_is_a_sentence() -> None:
    assert not [declared.name for declared in metrics.declarations() if not declared.meaning.endswith(".")]


def test_no_label_but_that_of_the_tenants_can_grow_with_the_callers() -> None:
    for declared in metrics.declarations():
        of_tenants = declared.name.startswith("antiphon_tenant_")
        assert not set(declared.labels) & (IDS - {"tenant"} if of_tenants else IDS), declared.name


def test_every_instrument_is_used() -> None:
    used = {
        node.attr
        for path in SOURCES
        if "metrics." in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "metrics"
    }
    declared = {name for name, found in vars(metrics).items() if isinstance(found, Instrument)}
    assert declared <= used
