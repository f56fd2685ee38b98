from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_translator import served_model
from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.parsing import families
from antiphon_translator.profiles import ModelProfile
from tests.support.served_models import model, write_directory

HELLO = Conversation((Message("user", ("Hello",)),))


@pytest.fixture
def profile(tmp_path: Path) -> ModelProfile:
    return ModelProfile(name="m", directory=write_directory(tmp_path / "m"), endpoint="t:1")


def test_a_model_directory_is_all_it_takes(profile: ModelProfile) -> None:
    loaded = served_model.load(profile)
    assert (loaded.name, loaded.stop_ids, loaded.context_length) == ("m", (2,), 8192)
    assert loaded.prompt.encode(HELLO, now_s=0) == model().prompt.encode(HELLO, now_s=0)


def test_the_profiles_own_template_wins(profile: ModelProfile, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ eos_token }}")
    loaded = served_model.load(replace(profile, chat_template=tmp_path / "t.jinja"))
    assert loaded.prompt.encode(HELLO, now_s=0) == [2]


@pytest.mark.parametrize(("asked", "length"), [(4096, 4096), (100_000, 8192)])
def test_the_smaller_context_length_counts(profile: ModelProfile, asked: int, length: int) -> None:
    assert served_model.load(replace(profile, context_length=asked)).context_length == length


def test_what_is_missing_is_told_with_what_would_help(profile: ModelProfile, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read its chat template"):
        served_model.load(replace(profile, chat_template=tmp_path / "none.jinja"))
    (profile.directory / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(SettingsError, match="does not compile.*line 1"):
        served_model.load(profile)
    (profile.directory / "chat_template.jinja").unlink()
    with pytest.raises(SettingsError, match="name one with chat_template"):
        served_model.load(profile)
    (profile.directory / "config.json").unlink()
    with pytest.raises(SettingsError, match="set context_length"):
        served_model.load(
            replace(profile, chat_template=Path(__file__).parents[2] / "support/smollm2/chat_template.jinja")
        )


GPT_OSS = "<|start|>{{ messages[0].content }}<|channel|><|message|>"


def test_gpt_oss_has_a_writer_of_its_own(profile: ModelProfile, tmp_path: Path) -> None:
    (profile.directory / "chat_template.jinja").write_text(GPT_OSS)
    loaded = served_model.load(profile)
    assert loaded.syntax.family.name == "gpt_oss"
    assert loaded.prompt.write(HELLO, now_s=0).endswith("<|start|>user<|message|>Hello<|end|><|start|>assistant")
    (profile.directory / "chat_template.jinja").unlink()
    assert served_model.load(replace(profile, family="gpt_oss")).prompt.variables == {"reasoning_effort"}


def test_a_template_that_the_profile_names_wins_over_it(profile: ModelProfile, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text(GPT_OSS)
    loaded = served_model.load(replace(profile, chat_template=tmp_path / "t.jinja"))
    assert loaded.prompt.write(HELLO, now_s=0) == "<|start|>Hello<|channel|><|message|>"


def test_every_writer_that_a_family_names_is_there() -> None:
    assert {families.load(name).prompt.writer for name in families.names()} - {""} == set(served_model._WRITERS)


def test_the_family_that_was_detected_is_logged(profile: ModelProfile, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        served_model.load(profile)
    assert "model 'm': its family is 'plain'" in caplog.text
