from __future__ import annotations

import pytest

from antiphon.cli import main


def test_a_server_is_measured(base_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", base_url, "--requests=5", "--concurrency=2"]) == 0
    first, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("5 of 5 requests completed in ")
    assert len(rows) == 3


def test_a_model_that_is_not_there_fails_every_request(base_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--url", base_url, "--requests=2", "--model=none"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 x The model 'none'")


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_a_count_is_1_or_more(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", f"--requests={wrong}"])
    assert "must be 1 or more" in capsys.readouterr().err
