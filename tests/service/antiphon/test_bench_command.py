from __future__ import annotations

import pytest

from antiphon.cli import main


def test_bench_prints_the_results_of_all_requests(base_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", base_url, "--requests=5", "--concurrency=2"]) == 0
    first, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("5 of 5 requests completed in ")
    assert len(rows) == 3


def test_bench_of_an_unknown_model_fails_every_request(base_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--url", base_url, "--requests=2", "--model=none"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 x The model 'none'")


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_an_invalid_request_count_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", f"--requests={wrong}"])
    assert "must be 1 or more" in capsys.readouterr().err
