from __future__ import annotations

import pytest

from antiphon_translator.parsing.segments import Reasoning, Segment, Text
from tests.support.tool_calls.parsing import call, parsed


def tags(text: str) -> str:
    """Replaces `[tag]` and `[/tag]` by the tags of the model."""
    return text.replace("[/", "<|close|>").replace("[", "<|open|>").replace("]", "<|sep|>")


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("[think]hm[/think][response]Hi[/response]", [Reasoning("hm"), Text("Hi")]),
        ("Hi", [Text("Hi")]),
        ("[tools]stray[/tools]", [Text("stray")]),
        ('[call tool="f"]stray[/call]', call("f", "{}")),
        ('[call tool="f"][/call]', call("f", "{}")),
        (
            '[call tool="f"][argument key="a" type="string"]"x"[/argument]'
            '[argument key="b" type="number"]1e20[/argument][/call]',
            call("f", '{"a": "\\"x\\"", "b": 1e20}'),
        ),
        ('[call tool="f"][argument key="&quot;" type="string"]', call("f", '{"\\"": "', is_complete=False)),
        ('[call tool="f"][call tool="g"][/call]', [*call("f", "", is_complete=False), *call("g", "{}")]),
        ("[call][/call][response]Hi[/response]", [Text("Hi")]),
        ('[call tool="f"', call("f", tags('[call tool="f"'), is_complete=False)),
        ("Hi[resp", [Text("Hi")]),
        ("Hi\n[word", [Text("Hi\nword")]),
        ("Say [ or [call, then wait.", [Text(tags("Say [ or [call, then wait."))]),
        (
            '[call tool="f"][argument key="a" type="string"]x[/argument][/call][argument key="b" type="string"]stray',
            [*call("f", '{"a": "x"}'), Text("stray")],
        ),
    ],
)
def test_tags_become_their_segments(text: str, segments: list[Segment]) -> None:
    assert parsed("kimi_k3", tags(text)) == segments


def test_tag_opened_by_the_prompt_is_continued() -> None:
    tail = tags('[message role="assistant"][think]')
    assert parsed("kimi_k3", tags("hm[/think][response]Hi"), tail=tail) == [Reasoning("hm"), Text("Hi")]
    assert parsed("kimi_k3", "Hi", tail=tags("[think][/think]")) == [Text("Hi")]
