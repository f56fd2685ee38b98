from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.limits import PROMPT_CONTENT_BYTES_MAX, PROMPT_VERSIONS_ITEMS_MAX
from antiphon_store.prompts import rules


@pytest.mark.parametrize("prompt_id", ["", "pmpt_1", "conv_" + "0" * 48, "pmpt_" + "A" * 48])
def test_an_id_is_one_of_a_prompt(prompt_id: str) -> None:
    rules.check_prompt_id("pmpt_" + "0" * 48)
    with pytest.raises(InvalidRequest) as raised:
        rules.check_prompt_id(prompt_id)
    assert raised.value.field == "id"


@pytest.mark.parametrize("version", [0, -1, PROMPT_VERSIONS_ITEMS_MAX + 1])
def test_versions_are_counted_from_one(version: int) -> None:
    rules.check_version(PROMPT_VERSIONS_ITEMS_MAX)
    with pytest.raises(InvalidRequest) as raised:
        rules.check_version(version)
    assert raised.value.field == "version"


def test_a_content_is_there_and_bounded() -> None:
    rules.check_content(b" " * PROMPT_CONTENT_BYTES_MAX)
    with pytest.raises(InvalidRequest):
        rules.check_content(b"")
    with pytest.raises(TooLarge):
        rules.check_content(b" " * (PROMPT_CONTENT_BYTES_MAX + 1))
