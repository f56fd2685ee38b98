"""Alerts, dashboards and autoscalers: every query is valid and names existing metrics, and every alert is tested."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon_core.errors import TABLE
from antiphon_tokens import signature
from k8s.components.grafana import panels
from tests.support.debian import found_or_installed
from tests.support.manifests import K8S, OVERLAYS, ROOT, SPARE_GC, of_kind, overlay

TESTS = Path(__file__).parent / "rules"
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"
HEADINGS = ("## What you see", "## First look", "## Likely causes", "## What to do")
# Labels that Prometheus and the Prometheus Operator add to every series, and the label of histograms.
ADDED = {"namespace", "pod", "container", "job", "le"}

_ROW = re.compile(r"^\| `(antiphon_\w+)` \| \w+ \| ([^|]*) \|", re.MULTILINE)
_SERIES = re.compile(r"(?<![\w:])(antiphon_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


@pytest.fixture(scope="module")
def promtool() -> str:
    return found_or_installed(lambda: shutil.which("promtool"), "prometheus")


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    document = yaml.safe_load((K8S / "components" / "prometheus" / "rules.yaml").read_text(encoding="utf-8"))
    spec: dict[str, Any] = document["spec"]
    return spec


def test_triton_is_scaled_by_the_wait_that_its_model_shows() -> None:
    named = {(each["kind"], each["metadata"]["name"]): each for each in overlay("prod")}
    scaler, deployment = (named[kind, "triton"] for kind in ("HorizontalPodAutoscaler", "Deployment"))
    assert [one["pods"]["metric"]["name"] for one in scaler["spec"]["metrics"]] == [signature.QUEUE_METRIC]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "triton-metrics" in [port["name"] for port in container["ports"]]


def test_alert_rules_pass_promtool(promtool: str, rules: dict[str, Any], tmp_path: Path) -> None:
    _check(promtool, "check", rules, tmp_path)


@pytest.mark.parametrize("path", sorted(TESTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_alerts_fire_only_under_their_conditions(
    promtool: str, rules: dict[str, Any], path: Path, tmp_path: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
    shutil.copy(path, tmp_path)
    done = subprocess.run(
        [promtool, "test", "rules", path.name],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | SPARE_GC,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_firing_and_a_silent_test_case(rules: dict[str, Any]) -> None:
    tested: set[tuple[str, bool]] = set()
    for path in TESTS.glob("*.yaml"):
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            tested |= {(one["alertname"], bool(one["exp_alerts"])) for one in case.get("alert_rule_test", ())}
    names = {rule["alert"] for rule in _alerts(rules)}
    assert tested == {(name, fires) for name in names for fires in (True, False)}


def test_availability_counts_the_errors_that_are_answered_with_5xx(rules: dict[str, Any]) -> None:
    faults = {row.error.__name__ for row in TABLE if row.http_status >= 500}
    queries = [query for query in _rule_queries(rules) if "antiphon_turn_failures_total" in query]
    assert len(queries) == 5
    for query in queries:
        (pattern,) = re.findall(r'error=~"([^"]+)"', query)
        assert {row.error.__name__ for row in TABLE if re.fullmatch(pattern, row.error.__name__)} == faults


def test_every_alert_has_its_runbook_and_every_runbook_its_alert(rules: dict[str, Any]) -> None:
    pages = {rule["annotations"]["runbook"] for rule in _alerts(rules)}
    assert pages == {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/runbooks").glob("*.md")} - {
        "docs/runbooks/README.md"
    }
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [line for line in text.splitlines() if line.startswith("## ")] == list(HEADINGS), page


def test_dashboard_files_are_up_to_date() -> None:
    for name, chosen in panels.DASHBOARDS.items():
        written = (panels.FOLDER / f"{name}.json").read_text(encoding="utf-8")
        assert written == panels.text(name, chosen), "make docs"
    assert {path.stem for path in panels.FOLDER.glob("*.json")} == panels.DASHBOARDS.keys()


def test_every_series_of_a_dashboard_belongs_to_the_chosen_namespace() -> None:
    series = re.compile(r"(?<![\w:])antiphon[_:][\w:]+(?:\{[^}]*\})?")
    assert not [found for query in _panel_queries() for found in series.findall(query) if panels.NAMESPACE not in found]


def test_dashboard_queries_pass_promtool(promtool: str, tmp_path: Path) -> None:
    queries = [{"record": "panel", "expr": query.replace("$__rate_interval", "5m")} for query in _panel_queries()]
    distinct = [{**rule, "labels": {"number": str(number)}} for number, rule in enumerate(queries)]
    _check(promtool, "check", {"groups": [{"name": "panels", "rules": distinct}]}, tmp_path)


def test_every_query_names_metrics_and_labels_that_exist(rules: dict[str, Any]) -> None:
    declared = {name: {label.strip(" `") for label in labels.split(",")} for name, labels in _declared()}
    declared |= {name: set(labels) for name, labels in signature.METRICS.items()}
    faults = []
    for query in (*_rule_queries(rules), *_panel_queries(), *_scaler_queries()):
        used = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in _SERIES.findall(query)}
        known = ADDED.union(*(declared.get(name, set()) for name in used))
        labels = {label for _, matchers in _SERIES.findall(query) for label in _MATCHER.findall(matchers)}
        labels |= {label.strip() for group in _GROUPED.findall(query) for label in group.split(",") if label.strip()}
        faults += [(query, used - declared.keys(), labels - known)] * (
            not used <= declared.keys() or not labels <= known
        )
    assert not faults


def _check(promtool: str, verb: str, rules: dict[str, Any], folder: Path) -> None:
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump(rules), encoding="utf-8")
    done = subprocess.run([promtool, verb, "rules", str(path)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _declared() -> Iterator[tuple[str, str]]:
    yield from _ROW.findall(REFERENCE.read_text(encoding="utf-8"))


def _alerts(rules: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule)


def _rule_queries(rules: dict[str, Any]) -> Iterator[str]:
    return (rule["expr"] for group in rules["groups"] for rule in group["rules"])


def _panel_queries() -> Iterator[str]:
    for path in panels.FOLDER.glob("*.json"):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            yield from (target["expr"] for target in panel["targets"])


def _scaler_queries() -> Iterator[str]:
    """The queries of the autoscalers."""
    for documents in map(overlay, OVERLAYS):
        for scaler in of_kind(documents, "HorizontalPodAutoscaler"):
            metrics = scaler["spec"]["metrics"]
            yield from (one["pods"]["metric"]["name"] for one in metrics if one["type"] == "Pods")
        for scaler in of_kind(documents, "ScaledObject"):
            yield from (trigger["metadata"]["query"] for trigger in scaler["spec"]["triggers"])
