from __future__ import annotations

import re

from antiphon_core.telemetry import metrics

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
