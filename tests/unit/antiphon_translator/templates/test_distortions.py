from __future__ import annotations

import pytest

from antiphon_translator.templates import distortions


@pytest.mark.parametrize(
    ("prompt", "distortion"),
    [
        ("<u>alpha<a>bravo", None),
        ("<a>bravo<u>alpha", "nothing of 'bravo'"),
        ("<u>alpha", "nothing of 'bravo'"),
        ("<u>[{'type': 'text', 'text': 'alpha'}]<a>bravo", "a list of parts, printed"),
        ('<u>[{"type": "text", "text": "alpha"}]<a>bravo', "a list of parts, printed"),
        ("<u>['alpha']<a>bravo", "Python's form of 'alpha'"),
        ('<u>{"output": "alpha"}<a>bravo', None),
    ],
)
def test_text_that_is_missing_or_printed_by_python_is_found(prompt: str, distortion: str | None) -> None:
    assert distortions.of(prompt, [("alpha",), ("bravo",)]) == distortion


def test_texts_of_one_message_may_be_in_any_order() -> None:
    assert distortions.of("bravo alpha charlie", [("alpha", "", "bravo"), ("charlie",)]) is None
    assert distortions.of("charlie alpha bravo", [("alpha", "bravo"), ("charlie",)]) == "nothing of 'charlie'"


def test_words_of_python_count_only_beyond_those_of_the_template() -> None:
    assert distortions.python_words("None of it is True: None", ["None of it"]) == ["None", "True"]
    assert distortions.python_words('None of it, {"a": null, "b": "True"}', ["None of it"]) == []
