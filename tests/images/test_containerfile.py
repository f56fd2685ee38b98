"""Checks the Containerfile and compose.yaml without a build: lint, settings, and names that refer to each other."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon import settings
from k8s.components.prometheus import plain_rules
from tests.support.container_images import ROOT, STAGES, TARGETS, requirements_for
from tests.support.debian import found_or_installed

OURS = ("edge", "worker", "translator", "store")
HADOLINT = Path(sys.executable).parent / "hadolint"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    found: dict[str, Any] = document["services"]
    return found


def test_the_containerfile_passes_hadolint() -> None:
    program = HADOLINT
    done = subprocess.run([str(program), str(ROOT / "Containerfile")], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def stages_in_order() -> list[str]:
    return re.findall(r"^FROM .* AS (\S+)$", (ROOT / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_target_is_a_stage() -> None:
    assert set(TARGETS) <= set(stages_in_order())


def test_every_stage_of_packages_is_kept_between_runs() -> None:
    assert [stage for stage in stages_in_order() if stage.endswith("packages") and stage != "common-packages"] == [
        *STAGES
    ]


def test_requirements_are_filtered_by_the_python_of_the_image() -> None:
    old, new = "old==1 ; python_full_version < '3.11.3'", "new==1 ; python_full_version >= '3.12'"
    assert (
        requirements_for("3.11.2", f"{old} \\\n    --hash=a\n{new} \\\n    --hash=b\n") == "old==1 \\\n    --hash=a\n"
    )


@pytest.mark.parametrize("name", OURS)
def test_settings_of_compose_exist(services: dict[str, Any], name: str) -> None:
    settings.load(environ=services[name]["environment"], flags={}, file=None)


def test_compose_builds_all_targets_and_calls_existing_services(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if "build" in service} == set(OURS)
    for name in OURS:
        assert services[name]["build"]["target"] == name
        called = re.findall(r"//([a-z]+):\d+", " ".join(services[name]["environment"].values()))
        assert set(called) <= services.keys()


def test_compose_publishes_ports_on_loopback_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_files_mounted_by_compose_exist(services: dict[str, Any]) -> None:
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert not [path for path in mounted if path.startswith("./") and not (ROOT / path).exists()]


def test_prometheus_files_are_up_to_date_and_pass_promtool() -> None:
    assert plain_rules.PLAIN.read_text(encoding="utf-8") == plain_rules.text(), "make docs"
    promtool = found_or_installed(lambda: shutil.which("promtool"), "prometheus")
    folder = ROOT / "containers" / "prometheus"
    for command in (["config", "--syntax-only", "prometheus.yaml"], ["rules", "rules.yaml"]):
        done = subprocess.run([promtool, "check", *command], check=False, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
