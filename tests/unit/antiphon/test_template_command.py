from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon import cli
from tests.support.served_models import write_directory

TEMPLATES = Path(__file__).parents[2] / "golden" / "templates"
Output = pytest.CaptureFixture[str]


def test_render_prints_the_prompt_tail_and_the_raw_output(capsys: Output) -> None:
    assert cli.main(["template", "render", str(TEMPLATES / "Qwen3-Coder.jinja")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"prompt_tail", "raw"}
    assert "<function=get_weather>" in printed["raw"]


def test_check_prints_the_family_and_fails_for_a_distorted_message(capsys: Output) -> None:
    assert cli.main(["template", "check", str(TEMPLATES / "Qwen3-Coder.jinja")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "family: qwen_coder",
        "because of: '<function=', '<parameter='",
        "the family parses the output",
        "a call with true and null: the model reads Python's None and True",
    ]


def test_check_of_a_family_that_does_not_fit_fails_and_shows_the_output(capsys: Output) -> None:
    assert cli.main(["template", "check", str(TEMPLATES / "GLM-4.6.jinja"), "--family", "plain"]) == 1
    out = capsys.readouterr().out
    assert "does not parse 2 calls" in out
    assert "the output was" in out


def test_check_of_gpt_oss_reports_the_harmony_writer(capsys: Output) -> None:
    assert cli.main(["template", "check", str(TEMPLATES / "openai-gpt-oss-120b.jinja")]) == 0
    assert "the prompts are written by 'harmony'" in capsys.readouterr().out


def test_check_accepts_a_model_directory(tmp_path: Path, capsys: Output) -> None:
    directory = write_directory(tmp_path / "model")
    assert cli.main(["template", "check", str(directory)]) == 1  # its small template leaves calls out
    assert capsys.readouterr().out.splitlines()[0].startswith("family: ")


@pytest.mark.parametrize(
    ("template", "said"), [("{% if %}", "does not compile"), ("{{ raise_exception('no') }}", "no")]
)
def test_an_unusable_template_prints_one_line(tmp_path: Path, capsys: Output, template: str, said: str) -> None:
    path = tmp_path / "own.jinja"
    path.write_text(template)
    assert cli.main(["template", "render", str(path)]) != 0
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_an_unknown_family_is_refused_with_its_name(capsys: Output) -> None:
    assert cli.main(["template", "check", str(TEMPLATES / "GLM-4.6.jinja"), "--family", "none"]) != 0
    assert "There is no family 'none'" in capsys.readouterr().err


def test_check_of_a_template_that_shows_every_message_succeeds(capsys: Output) -> None:
    assert cli.main(["template", "check", str(TEMPLATES / "GLM-4.6.jinja")]) == 0
    assert "the model reads" not in capsys.readouterr().out
