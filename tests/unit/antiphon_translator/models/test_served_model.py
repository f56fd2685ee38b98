from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_translator.conversation import Conversation, Image, Message
from antiphon_translator.media.sight import Sight
from antiphon_translator.models import served_model
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing import families
from antiphon_translator.templates.roles import Roles
from tests.support.served_models import model, write_directory

HELLO = Conversation((Message("user", ("Hello",)),))


@pytest.fixture
def profile(tmp_path: Path) -> ModelProfile:
    return ModelProfile(name="m", directory=write_directory(tmp_path / "m", short=True), endpoint="t:1")


def folder(profile: ModelProfile) -> Path:
    assert profile.directory is not None
    return profile.directory


def test_model_is_loaded_from_its_directory_alone(tmp_path: Path) -> None:
    loaded = served_model.load(ModelProfile(name="m", directory=write_directory(tmp_path / "m"), endpoint="t:1"))
    assert (loaded.name, loaded.stop_ids, loaded.context_length) == ("m", (2,), 8192)
    assert list(loaded.prompt.encode(HELLO, now_s=0).ids) == list(model().prompt.encode(HELLO, now_s=0).ids)


def test_template_of_the_profile_wins_over_the_directory(profile: ModelProfile, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ eos_token }}")
    loaded = served_model.load(replace(profile, chat_template=tmp_path / "t.jinja"))
    assert list(loaded.prompt.encode(HELLO, now_s=0).ids) == [2]


@pytest.mark.parametrize("asked", [4096, 8192])
def test_context_length_up_to_that_of_the_model_is_accepted(profile: ModelProfile, asked: int) -> None:
    assert served_model.load(replace(profile, context_length=asked)).context_length == asked


def test_context_length_above_that_of_the_model_is_rejected(profile: ModelProfile) -> None:
    with pytest.raises(SettingsError, match="context_length = 100000 is more than the 8192 tokens"):
        served_model.load(replace(profile, context_length=100_000))


def test_model_of_a_chat_server_loads_without_a_directory(tmp_path: Path) -> None:
    chat = ModelProfile(name="m", endpoint="http://t/v1", engine="openai_chat")
    loaded = served_model.load(chat)
    assert (loaded.is_measured, loaded.context_length, loaded.prompt.roles) == (False, 0, Roles())
    assert served_model.load(replace(chat, context_length=4096)).context_length == 4096
    (tmp_path / "t.jinja").write_text("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}")
    seen = served_model.load(replace(chat, chat_template=tmp_path / "t.jinja"))
    assert seen.prompt.roles.user_runs


def test_model_of_a_chat_server_loads_without_a_template(profile: ModelProfile) -> None:
    (folder(profile) / "chat_template.jinja").unlink()
    loaded = served_model.load(replace(profile, engine="openai_chat", endpoint="http://t/v1"))
    assert (loaded.is_measured, loaded.context_length) == (False, 8192)


def test_missing_or_broken_file_is_an_error_with_a_remedy(profile: ModelProfile, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read its chat template"):
        served_model.load(replace(profile, chat_template=tmp_path / "none.jinja"))
    (folder(profile) / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(SettingsError, match="does not compile.*line 1"):
        served_model.load(profile)
    (folder(profile) / "chat_template.jinja").unlink()
    with pytest.raises(SettingsError, match="name one with chat_template"):
        served_model.load(profile)
    (folder(profile) / "config.json").unlink()
    with pytest.raises(SettingsError, match="set context_length"):
        served_model.load(
            replace(profile, chat_template=Path(__file__).parents[3] / "support/smollm2/chat_template.jinja")
        )


def written(loaded: ServedModel) -> str:
    return loaded.prompt.text(loaded.prompt.encode(HELLO, now_s=0), HELLO)


GPT_OSS = "<|start|>{{ messages[0].content }}<|channel|><|message|>"


def test_gpt_oss_is_written_without_its_template(profile: ModelProfile, tmp_path: Path) -> None:
    (folder(profile) / "chat_template.jinja").write_text(GPT_OSS)
    loaded = served_model.load(profile)
    assert loaded.syntax.family.name == "gpt_oss"
    assert written(loaded).endswith("<|start|>user<|message|>Hello<|end|><|start|>assistant")
    (folder(profile) / "chat_template.jinja").unlink()
    assert served_model.load(replace(profile, family="gpt_oss")).prompt.variables == {"reasoning_effort"}


def test_template_of_the_profile_wins_over_the_gpt_oss_writer(profile: ModelProfile, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text(GPT_OSS)
    loaded = served_model.load(replace(profile, chat_template=tmp_path / "t.jinja"))
    assert written(loaded) == "<|start|>Hello<|channel|><|message|>"


def test_roles_are_detected_from_the_template_in_use(profile: ModelProfile, tmp_path: Path) -> None:
    assert served_model.load(profile).prompt.roles.late_system
    (folder(profile) / "chat_template.jinja").write_text(GPT_OSS)  # writes the first message only
    assert served_model.load(profile).prompt.roles.user_runs
    chat = replace(profile, engine="openai_chat", endpoint="http://t/v1")
    assert not served_model.load(chat).prompt.roles.user_runs


def test_roles_of_the_profile_are_used(profile: ModelProfile) -> None:
    named = served_model.load(replace(profile, roles=("system", "tool"))).prompt.roles
    assert named.names == ("system", "tool")


def test_every_prompt_writer_of_a_family_exists() -> None:
    assert {families.load(name).prompt.writer for name in families.names()} - {""} == set(served_model._WRITERS)


def test_detected_family_is_logged(profile: ModelProfile, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        served_model.load(profile)
    assert "model 'm': its family is 'plain'" in caplog.text


def test_reason_why_a_template_rejects_results_is_logged(
    profile: ModelProfile, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t.jinja").write_text(
        "{% for m in messages %}{{ m.content }}{% if m.role == 'tool' %}{{ messages.append(m) }}{% endif %}{% endfor %}"
    )
    served_model.load(replace(profile, chat_template=tmp_path / "t.jinja"))
    assert "access to attribute 'append' of 'list' object is unsafe" in caplog.text


@pytest.mark.parametrize(("template", "reasons"), [("{{ '<tool_call>' }}", False), ("{{ '<think>' }}", True)])
def test_model_reasons_only_with_the_reasoning_markers_of_its_family(
    profile: ModelProfile, tmp_path: Path, template: str, reasons: bool
) -> None:
    (tmp_path / "t.jinja").write_text(template)
    loaded = served_model.load(replace(profile, family="hermes", chat_template=tmp_path / "t.jinja"))
    assert loaded.can_reason is reasons


def test_harmony_always_reasons(profile: ModelProfile) -> None:
    assert served_model.load(replace(profile, family="gpt_oss", lora="7")).can_reason


SEEING = (
    "{% for m in messages %}{% for p in m.content %}"
    "{{ '[IMG]' if p.type == 'image' else p.text }}{% endfor %}{% endfor %}"
)


def test_images_are_treated_as_the_profile_says(profile: ModelProfile, tmp_path: Path) -> None:
    assert served_model.load(profile).sight is Sight.REFUSE
    assert served_model.load(replace(profile, images="placeholder")).sight is Sight.PLACEHOLDER
    (tmp_path / "seeing.jinja").write_text(SEEING)
    seeing = replace(profile, images="native", chat_template=tmp_path / "seeing.jinja", image_tokens=576)
    loaded = served_model.load(seeing)
    assert (loaded.sight, loaded.image_tokens) == (Sight.NATIVE, 576)
    shown = Conversation((Message("user", (Image(b"", "png", 1, 1), "x")),))
    assert loaded.prompt.text(loaded.prompt.encode(shown, now_s=0), shown) == "[IMG]x"
    assert loaded.context_tokens(3, shown) == 3 + 576


def test_vision_model_without_an_image_token_is_rejected(profile: ModelProfile) -> None:
    blind = replace(profile, images="native")
    with pytest.raises(SettingsError, match="no place for an image; set image_token to the text that stands for one"):
        served_model.load(blind)
    assert served_model.load(replace(blind, image_token="<image>")).sight is Sight.NATIVE
    assert served_model.load(replace(blind, engine="openai_chat")).sight is Sight.NATIVE


def test_vision_model_of_gpt_oss_without_a_template_is_rejected(profile: ModelProfile) -> None:
    harmony = replace(profile, family="gpt_oss", images="native", image_token="<image>")
    with pytest.raises(SettingsError, match="set chat_template to a template that has one"):
        served_model.load(harmony)


def test_pinned_system_messages_are_read_from_their_files(profile: ModelProfile, tmp_path: Path) -> None:
    pinned = tmp_path / "pinned.txt"
    pinned.write_text("Be brief.\n")
    assert served_model.load(replace(profile, pinned_system_messages=(pinned,))).pinned_texts == ("Be brief.",)
    pinned.write_text(" \n")
    for path, cause in ((pinned, "is empty"), (tmp_path / "none.txt", "cannot read a pinned system message")):
        with pytest.raises(SettingsError, match=cause):
            served_model.load(replace(profile, pinned_system_messages=(path,)))
