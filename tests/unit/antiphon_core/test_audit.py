from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from antiphon import logs
from antiphon.logs import LogSettings
from antiphon_core import audit
from antiphon_core.audit import Action
from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.jsons import loads
from antiphon_core.telemetry import metrics

FULL = Path("/dev/full")
ACTION = Action("edge", "key 1", "10.0.0.1", "acme", "GET /v1/models", ("resp_1",), "200", "req_1")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "audit"
    audit.configure(path)
    yield path
    audit.configure(None)


def lines(path: Path) -> list[dict[str, object]]:
    return [loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_the_declared_fields_and_no_others(file: Path) -> None:
    audit.note(ACTION)
    (line,) = lines(file)
    assert list(line) == ["ts", "service", "caller", "peer", "tenant", "action", "ids", "result", "request_id"]
    assert (line["caller"], line["ids"], line["result"]) == ("key 1", ["resp_1"], "200")


def test_text_in_the_place_of_an_id_is_not_written(file: Path) -> None:
    hostile = ["my secret prompt", 'x"}\n{"ts":1', "a" * 129, "\u202e", "conv_1"]
    audit.note(replace(ACTION, ids=hostile))
    assert lines(file)[0]["ids"] == ["?", "?", "?", "?", "conv_1"]


@pytest.mark.parametrize(
    ("given", "shown"), [("my secret prompt", "?"), ("a" * 129, "?"), ("é", "?"), ("acme@eu", "acme@eu"), ("", "")]
)
def test_text_in_the_place_of_a_tenant_is_not_written(file: Path, given: str, shown: str) -> None:
    audit.note(replace(ACTION, tenant=given))
    assert lines(file)[0]["tenant"] == shown


def test_a_line_names_so_many_ids_and_no_more(file: Path) -> None:
    audit.note(replace(ACTION, ids=["a"] * 1_000))
    assert lines(file)[0]["ids"] == ["a"] * audit.IDS_MAX


def test_a_file_that_was_moved_away_is_opened_anew(file: Path) -> None:
    audit.note(ACTION)
    file.rename(file.with_suffix(".1"))
    audit.note(ACTION)
    assert len(lines(file)) == len(lines(file.with_suffix(".1"))) == 1


def test_no_audit_line_is_written_without_a_file(file: Path) -> None:
    audit.configure(None)
    audit.note(ACTION)
    assert not audit.is_on()
    assert lines(file) == []


def test_audit_lines_are_in_no_other_log(file: Path) -> None:
    seen: list[logging.LogRecord] = []
    root, handler = logging.getLogger(), logging.Handler()
    handler.emit = seen.append  # type: ignore[assignment,method-assign]
    root.addHandler(handler)
    audit.note(ACTION)
    root.removeHandler(handler)
    assert (len(lines(file)), seen) == (1, [])


def test_audit_lines_on_a_full_disk_are_counted_and_reported_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit.configure(FULL)
    before = metrics.AUDIT_LINES_LOST.of().value
    for _ in range(100):
        audit.note(ACTION)
    assert metrics.AUDIT_LINES_LOST.of().value == before + 100
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        "1 lines of the audit log were lost: [Errno 28] No space left on device"
    ]


def test_audit_log_goes_on_after_a_full_disk_was_rotated(file: Path) -> None:
    file.unlink()
    file.symlink_to(FULL)
    for _ in range(3):
        audit.note(ACTION)
    file.rename(file.with_suffix(".1"))
    audit.note(ACTION)
    assert len(lines(file)) == 1


def test_required_audit_line_that_cannot_be_written_rejects_the_request(file: Path) -> None:
    audit.configure(file, is_required=True)
    audit.require(replace(ACTION, result=audit.STARTED))
    audit.note(ACTION)
    assert [line["result"] for line in lines(file)] == ["started", "200"]
    audit.configure(FULL, is_required=True)
    with pytest.raises(Unavailable, match="cannot be written") as caught:
        audit.require(ACTION)
    assert caught.value.code == "audit_unavailable"
    audit.note(ACTION)  # the end of a request that has run is never an error


def test_audit_log_that_is_not_required_has_no_lines_of_starts(file: Path) -> None:
    audit.require(ACTION)
    assert lines(file) == []


@pytest.mark.parametrize(("mode", "warnings"), [(None, 0), (0o640, 0), (0o644, 1), (0o602, 1)])
def test_audit_log_is_the_owners_and_a_file_that_others_can_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int | None, warnings: int
) -> None:
    path = tmp_path / "another"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    audit.configure(path)
    audit.configure(None)
    assert path.stat().st_mode & 0o777 == (mode or 0o600)
    assert len([record for record in caplog.records if "chmod 600" in record.message]) == warnings


def test_the_audit_setting_names_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_options: None)
    logs.configure(LogSettings(audit=tmp_path / "another"))
    audit.note(ACTION)
    assert (len(lines(tmp_path / "another")), lines(file)) == (1, [])
    with pytest.raises(SettingsError, match="ANTIPHON_LOG_AUDIT_REQUIRED needs"):
        LogSettings(audit_required=True)
    with pytest.raises(SettingsError, match="Cannot open the audit log"):
        audit.configure(tmp_path / "none" / "audit")


def test_ids_of_a_request_are_those_of_its_fields_and_parts() -> None:
    record = SimpleNamespace(id="resp_1", previous_response_id="resp_0", body=b"content")
    appends = [SimpleNamespace(response_id=each) for each in ("a", "b")]
    request = SimpleNamespace(record=record, fence=None, session_id="", ids=["x", "y"], appends=appends, frames=b"z")
    assert audit.ids_in(request) == ["x", "y", "resp_1", "resp_0", "a", "b"]
