from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.cli import main
from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidApiKey
from antiphon_core.rpc import watched
from antiphon_edge.callers import api_keys
from antiphon_edge.callers.api_keys import KeyGuard, KeyRing
from tests.support.api_keys import PEPPER, KeyFiles, bearer, id_of
from tests.support.edge import running_edge

KEY = re.compile(r"ak_[0-9a-f]{12}_[0-9a-f]{64}\n")
DAY_MS = 24 * 3_600_000

Captured = pytest.CaptureFixture[str]
Run = Callable[..., int]


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return KeyFiles(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    found = ManualClock()
    monkeypatch.setattr("antiphon.keys_command.SystemClock", lambda: found)
    return found


@pytest.fixture
def run(files: KeyFiles, clock: ManualClock) -> Run:
    def keys(*arguments: str) -> int:
        places = [f"--edge-keys-file={files.keys}", f"--edge-keys-pepper-file={files.pepper}"]
        return main(["keys", *arguments, *places])

    return keys


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def ring(files: KeyFiles) -> KeyRing:
    return KeyRing(api_keys.read_peppers(files.pepper), api_keys.read_keys(files.keys))


def created(run: Run, capsys: Captured, tenant: str, *more: str) -> str:
    assert run("create", f"--tenant={tenant}", *more) == 0
    return capsys.readouterr().out.strip()


def test_the_first_key_creates_keys_and_pepper_files_with_mode_600(run: Run, files: KeyFiles, capsys: Captured) -> None:
    assert run("create", "--tenant", "acme") == 0
    out, err = capsys.readouterr()
    assert KEY.fullmatch(out)
    assert f"Key {id_of(out)} of tenant 'acme'." in err
    assert id_of(out) + "_" not in err
    assert ring(files).identify(out.strip(), 0).tenant == "acme"
    assert (mode(files.keys), mode(files.pepper)) == (0o600, 0o600)
    assert len(bytes.fromhex(files.pepper.read_text())) == 32
    assert out.split("_")[2].strip() not in files.keys.read_text()
    assert files.keys.read_text().startswith(api_keys.HEADER + "\n")
    assert sorted(path.name for path in files.folder.iterdir()) == ["keys", "pepper"]


def test_later_keys_share_the_pepper(run: Run, files: KeyFiles, capsys: Captured) -> None:
    first = created(run, capsys, "acme")
    pepper = files.pepper.read_text()
    second = created(run, capsys, "globex")
    assert files.pepper.read_text() == pepper
    assert [ring(files).identify(secret, 0).tenant for secret in (first, second)] == ["acme", "globex"]


def test_a_key_with_expires_days_is_rejected_after_that_time(
    run: Run, files: KeyFiles, clock: ManualClock, capsys: Captured
) -> None:
    secret = created(run, capsys, "acme", "--expires-days=2", "--name", " the ci runner ")
    key = ring(files).identify(secret, clock.now_ms() + 2 * DAY_MS - 1_000)
    assert key.name == "the ci runner"
    with pytest.raises(InvalidApiKey, match="is expired"):
        ring(files).identify(secret, clock.now_ms() + 2 * DAY_MS)


def test_list_shows_ids_tenants_states_and_dates_but_no_digest(
    run: Run, files: KeyFiles, clock: ManualClock, capsys: Captured
) -> None:
    expiring = created(run, capsys, "acme", "--expires-days=1", "--name=the ci runner")
    revoked, valid = created(run, capsys, "globex"), created(run, capsys, "initech")
    run("revoke", id_of(revoked))
    clock.advance(DAY_MS / 1000)
    capsys.readouterr()
    assert run("list") == 0
    out = capsys.readouterr().out
    assert [re.split(r"\s{2,}", line) for line in out.splitlines()] == [
        ["ID", "TENANT", "STATE", "CREATED", "EXPIRES", "NAME"],
        [id_of(expiring), "acme", "expired", "2023-11-14T22:13:20Z", "2023-11-15T22:13:20Z", "the ci runner"],
        [id_of(revoked), "globex", "revoked", "2023-11-14T22:13:20Z", "-"],
        [id_of(valid), "initech", "valid", "2023-11-14T22:13:20Z", "-"],
    ]
    for key in api_keys.read_keys(files.keys).values():
        assert key.digest.hex() not in out


def test_list_without_keys_prints_only_the_heading(run: Run, files: KeyFiles, capsys: Captured) -> None:
    assert run("list") == 0
    assert capsys.readouterr().out == "ID  TENANT  STATE  CREATED  EXPIRES  NAME\n"
    assert not files.keys.exists()


@pytest.mark.parametrize("how", ["{id}", "ak_{id}", "ak_{id}_***", "{key}", " {id} "])
def test_revoke_accepts_a_key_id_in_every_form(run: Run, files: KeyFiles, capsys: Captured, how: str) -> None:
    secret, other = created(run, capsys, "acme"), created(run, capsys, "acme")
    assert run("revoke", how.format(id=id_of(secret), key=secret)) == 0
    assert capsys.readouterr().out == f"Key {id_of(secret)} of tenant 'acme' is revoked.\n"
    with pytest.raises(InvalidApiKey, match="is revoked"):
        ring(files).identify(secret, 0)
    assert ring(files).identify(other, 0).tenant == "acme"


def test_revoking_twice_changes_nothing(run: Run, files: KeyFiles, clock: ManualClock, capsys: Captured) -> None:
    secret = created(run, capsys, "acme")
    run("revoke", id_of(secret))
    before = files.keys.read_text()
    clock.advance(60)
    capsys.readouterr()
    assert run("revoke", id_of(secret)) == 0
    assert capsys.readouterr().out == f"Key {id_of(secret)} was revoked before, at 2023-11-14T22:13:20Z.\n"
    assert files.keys.read_text() == before


def test_create_and_revoke_keep_comments_and_other_lines(run: Run, files: KeyFiles, capsys: Captured) -> None:
    secret = files.make("acme")
    line = files.keys.read_text()
    files.keys.write_text(f"# ours\n\n{line}  # theirs, {id_of(secret)}\n\n")
    added = created(run, capsys, "globex")
    assert files.keys.read_text().startswith(f"# ours\n\n{line}  # theirs, {id_of(secret)}\n{id_of(added)} globex ")
    run("revoke", id_of(secret))
    head, *rest = files.keys.read_text().split(id_of(secret), 1)
    assert head == "# ours\n\n"
    assert f"\n  # theirs, {id_of(secret)}\n{id_of(added)} globex " in rest[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["create", "--tenant="], "--tenant must be 1 to 128 printable ASCII characters without spaces"),
        (["create", "--tenant=two words"], "--tenant must be"),
        (["create", "--tenant=acme", "--name=two\nlines"], "--name must be at most 64 printable characters."),
        (["create", "--tenant=acme", "--expires-days=0"], "--expires-days must be from 1 to 3660."),
        (["create", "--tenant=acme", "--expires-days=3661"], "--expires-days must be from 1 to 3660."),
        (["revoke", "acme"], "A key's id is 12 hexadecimal digits; 'antiphon keys list' shows them."),
        (["revoke", "0123456789ab"], "There is no key '0123456789ab': {keys} does not exist."),
    ],
)
def test_invalid_arguments_print_one_line_and_create_no_files(
    run: Run, files: KeyFiles, capsys: Captured, arguments: list[str], says: str
) -> None:
    assert run(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("antiphon: " + says.format(keys=files.keys))
    assert list(files.folder.iterdir()) == []


def test_revoking_an_unknown_id_names_the_keys_file(run: Run, files: KeyFiles, capsys: Captured) -> None:
    files.make("acme")
    assert run("revoke", "ffffffffffff") == 2
    assert f"There is no key 'ffffffffffff' in {files.keys}. 'antiphon keys list' shows" in capsys.readouterr().err


def test_errors_of_revoke_do_not_print_the_secret(run: Run, files: KeyFiles, capsys: Captured) -> None:
    secret = files.make("acme")
    assert run("revoke", secret + "!") == 2
    assert run("revoke", api_keys.new_key("ffffffffffff")) == 2
    assert secret.split("_")[2] not in "".join(capsys.readouterr())


@pytest.mark.parametrize("what", ["create", "list", "revoke"])
def test_keys_commands_without_file_settings_are_refused(capsys: Captured, what: str) -> None:
    arguments = {"create": ["--tenant=acme"], "list": [], "revoke": ["0123456789ab"]}[what]
    assert main(["keys", what, *arguments]) == 2
    assert "Say where the keys are: --edge-keys-file and --edge-keys-pepper-file" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["create", "--tenant=acme"], ["list"], ["revoke", "0123456789ab"]])
def test_a_malformed_keys_file_is_named_and_not_changed(
    run: Run, files: KeyFiles, capsys: Captured, arguments: list[str]
) -> None:
    files.make("acme")
    broken = files.keys.read_text() + "half a line\n"
    files.keys.write_text(broken)
    assert run(*arguments) == 2
    assert f"{files.keys}, line 2: 3 words" in capsys.readouterr().err
    assert files.keys.read_text() == broken


def test_create_beside_existing_keys_does_not_replace_a_lost_pepper(
    run: Run, files: KeyFiles, capsys: Captured
) -> None:
    files.make("acme")
    files.pepper.unlink()
    assert run("create", "--tenant=globex") == 2
    assert f"Cannot read the pepper {files.pepper}" in capsys.readouterr().err
    assert not files.pepper.exists()


def test_an_existing_pepper_file_is_used(run: Run, files: KeyFiles, capsys: Captured) -> None:
    files.pepper.write_text(PEPPER)
    secret = created(run, capsys, "acme")
    assert files.pepper.read_text() == PEPPER
    assert ring(files).identify(secret, 0).tenant == "acme"


def test_missing_folders_are_created(files: KeyFiles, clock: ManualClock) -> None:
    deeper = {"keys": files.folder / "a/b/keys", "pepper": files.folder / "c/pepper"}
    places = [f"--edge-keys-file={deeper['keys']}", f"--edge-keys-pepper-file={deeper['pepper']}"]
    assert main(["keys", "create", "--tenant=acme", *places]) == 0
    assert all(mode(path) == 0o600 for path in deeper.values())


@pytest.mark.parametrize("given", [0o600, 0o640, 0o444])
def test_create_and_revoke_keep_mode_and_owner_of_the_keys_file(
    run: Run, files: KeyFiles, capsys: Captured, given: int
) -> None:
    """The edge may run as another user, and must be able to read the changed file."""
    secret = files.make("acme")
    files.keys.chmod(given)
    owner = 12_345 if os.geteuid() == 0 else os.geteuid()
    os.chown(files.keys, owner, -1)
    for arguments in (["create", "--tenant=globex"], ["revoke", id_of(secret)]):
        assert run(*arguments) == 0
        assert (mode(files.keys), files.keys.stat().st_uid) == (given, owner)


def test_the_keys_file_is_not_changed_if_its_owner_cannot_be_kept(
    run: Run, files: KeyFiles, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.make("acme")
    before = files.keys.read_text()

    def refuse(*_arguments: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    assert run("create", "--tenant=globex") == 2
    assert f"{files.keys} has another owner or group. Run this as its owner." in capsys.readouterr().err
    assert files.keys.read_text() == before
    assert sorted(path.name for path in files.folder.iterdir()) == ["keys", "pepper"]


def test_a_symlinked_keys_file_stays_a_symlink(run: Run, files: KeyFiles, capsys: Captured) -> None:
    real = files.folder / "real"
    files.make("acme")
    files.keys.rename(real)
    files.keys.symlink_to(real)
    created(run, capsys, "globex")
    assert files.keys.is_symlink()
    assert [key.tenant for key in api_keys.read_keys(real).values()] == ["acme", "globex"]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_draft(
    run: Run, files: KeyFiles, capsys: Captured, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    files.make("acme")
    before = files.keys.read_text()

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[broken], full)
    assert run("create", "--tenant=globex") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"antiphon: The keys cannot be changed: {files.keys}: No space left on device.\n"
    assert files.keys.read_text() == before
    assert sorted(path.name for path in files.folder.iterdir()) == ["keys", "pepper"]


def test_an_os_error_names_the_keys_file(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    places = [f"--edge-keys-file={tmp_path}/file/keys", f"--edge-keys-pepper-file={tmp_path}/pepper"]
    assert main(["keys", "create", "--tenant=acme", *places]) == 2
    assert f"The keys cannot be changed: {tmp_path}/file" in capsys.readouterr().err


def test_readers_never_see_a_partly_written_keys_file(run: Run, files: KeyFiles) -> None:
    """A reader sees the file before or after a change, never in between."""
    run("create", "--tenant=acme")
    done, seen = threading.Event(), 0

    def read() -> None:
        nonlocal seen
        is_last = False
        while not is_last:
            is_last = done.is_set()
            seen = max(seen, len(api_keys.read_keys(files.keys)))

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        for _ in range(10):
            run("create", "--tenant=acme")
        done.set()
        reading.result()
    assert len(api_keys.read_keys(files.keys)) == 11
    assert seen >= 1


def test_concurrent_creates_and_revokes_are_all_written(run: Run, files: KeyFiles, capsys: Captured) -> None:
    old = [files.make("acme") for _ in range(8)]
    with ThreadPoolExecutor(16) as pool:
        making = [pool.submit(run, "create", "--tenant=globex") for _ in range(8)]
        revoking = [pool.submit(run, "revoke", id_of(secret)) for secret in old]
        assert {task.result() for task in making + revoking} == {0}
    states = [(key.tenant, key.state(0)) for key in api_keys.read_keys(files.keys).values()]
    assert sorted(states) == [("acme", "revoked")] * 8 + [("globex", "valid")] * 8


def test_a_key_id_that_exists_is_drawn_again(
    files: KeyFiles, run: Run, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(["0" * 12, "0" * 12, "1" * 12])
    monkeypatch.setattr(api_keys, "new_key_id", lambda: next(drawn))
    assert [id_of(created(run, capsys, "acme")) for _ in range(2)] == ["0" * 12, "1" * 12]


def test_key_guard_reads_changed_files_without_a_restart(
    run: Run, files: KeyFiles, clock: ManualClock, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    first = created(run, capsys, "acme")
    guard = KeyGuard(files.keys, files.pepper, clock=clock)
    second = created(run, capsys, "globex")
    assert guard.identify(second).tenant == "globex"
    run("revoke", id_of(first))
    with pytest.raises(InvalidApiKey, match="is revoked"):
        guard.identify(first)


async def test_a_running_edge_accepts_new_keys_and_rejects_revoked_keys(
    run: Run, files: KeyFiles, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    first = created(run, capsys, "acme")
    async with running_edge(**files.settings) as edge:

        async def status(secret: str) -> int:
            return (await edge.ask("GET", "/v1/models", headers=bearer(secret))).status

        assert await status(first) == 200
        second = created(run, capsys, "globex")
        assert await status(second) == 200
        run("revoke", id_of(first))
        assert (await status(first), await status(second)) == (401, 200)


def test_keys_commands_read_their_files_from_environment_variables(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTIPHON_EDGE_KEYS_FILE", str(files.keys))
    monkeypatch.setenv("ANTIPHON_EDGE_KEYS_PEPPER_FILE", str(files.pepper))
    assert main(["keys", "create", "--tenant=acme"]) == 0
    capsys.readouterr()
    assert main(["keys", "list"]) == 0
    assert "acme" in capsys.readouterr().out
