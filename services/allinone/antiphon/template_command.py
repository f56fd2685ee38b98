"""`antiphon template`: tests a model's chat template, and the family that would parse its output, without a server.

    antiphon template render DIR    prints the raw output and the end of the prompt of a conversation, as a test vector
    antiphon template check DIR     prints the family of the model, the reasons, whether it parses this output, and
                                    what the template does not show as it was sent

DIR is a Hugging Face model directory, or a file with only a chat template.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_translator.models import model_directory
from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from antiphon_translator.templates import shown_cases, trial
from antiphon_translator.templates.jinja import InvalidTemplate, JinjaTemplate

_NO_TOKENS = {
    "bos_token": "",
    "eos_token": "",
}  # templates use them, and a file with only a template does not have them


@dataclass(frozen=True, slots=True)
class _Source:
    """A chat template, and the special and added tokens of its model, if they are known."""

    template: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    vocabulary: Collection[str] = ()


def declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    render = actions.add_parser("render", help="print the raw output of one conversation, and the end of its prompt")
    check = actions.add_parser(
        "check",
        help="print the family that the model would get, the reasons, and whether it fits",
        description="Prints the family, the reasons, whether it parses the template's output, and the messages that "
        "the template does not show as they were sent. The exit status is 1 if the family does not parse the output, "
        "or if the template loses or distorts a message.",
    )
    for action in (render, check):
        action.add_argument("directory", type=Path, metavar="DIR", help="a model directory, or a file with a template")
    check.add_argument("--family", help="the family to check, instead of the one that is recognised")
    render.set_defaults(run=run_render)
    check.set_defaults(run=run_check)


def run_render(options: argparse.Namespace) -> int:
    """Prints the members `prompt_tail` and `raw` of a test vector. SettingsError: the directory or the template is
    invalid."""
    made = _trial(_source(options.directory))
    print(dumps({"prompt_tail": made.prompt_tail, "raw": made.raw}).decode())
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Prints the findings. Returns 1 if the family does not parse the output that the template writes, or the template
    loses or distorts a message. SettingsError: as in `run_render`, or there is no such family."""
    source = _source(options.directory)
    reasons = families.evidence(source.template, source.vocabulary)
    family = _family(options.family or families.detect(source.template, source.vocabulary))
    print(f"family: {family.name}")
    for line in _reasons(family.name, reasons):
        print(line)
    if family.prompt.writer:
        print(f"the prompts are written by '{family.prompt.writer}', not by the template")
        return 0
    made = _trial(source)
    missing = trial.read(family, made).lacks(made)
    for each in missing:
        print(f"the family does not parse {each}")
    if not made.calls:
        print("the template writes no calls: find another source for the syntax of the model's calls")
    print("the family parses the output" if not missing else f"the output was: {dumps(made.raw).decode()}")
    found = list(shown_cases.findings(_compile(source)))
    for finding in found:
        print(f"{finding.case}: {finding.problem}")
    return int(bool(missing) or any(finding.is_distorted for finding in found))


def _reasons(name: str, reasons: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    if name in reasons:
        yield f"because of: {_list_text(reasons[name])}"
    elif not reasons:
        yield "no text in the template or the vocabulary belongs to a family"
    for other, found in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        if other != name:
            yield (
                f"weaker reasons for {other}: {_list_text(found)}"
                if name in reasons
                else f"{other}: {_list_text(found)}"
            )


def _list_text(found: Collection[str]) -> str:
    return ", ".join(repr(each) for each in found)


def _family(name: str) -> Family:
    try:
        return families.load(name)
    except KeyError as error:
        raise SettingsError(f"There is no family '{name}'; the families are {', '.join(families.names())}.") from error


def _source(path: Path) -> _Source:
    if path.is_file():
        try:
            return _Source(path.read_text("utf-8"), _NO_TOKENS)
        except (OSError, ValueError) as error:
            raise SettingsError(f"Cannot read {path}: {error}") from error
    facts = model_directory.read(path)
    if facts.chat_template is None:
        raise SettingsError(f"{path} has no chat template; name a file that holds one.")
    return _Source(facts.chat_template, facts.special_tokens, frozenset(facts.tokenizer.added.values()))


def _compile(source: _Source) -> JinjaTemplate:
    try:
        return JinjaTemplate(source.template, special_tokens=source.special_tokens)
    except InvalidTemplate as error:
        raise SettingsError(f"The chat template does not compile: {error}") from error


def _trial(source: _Source) -> trial.Trial:
    try:
        return trial.of(_compile(source))
    except InvalidRequest as error:
        raise SettingsError(error.message) from error
