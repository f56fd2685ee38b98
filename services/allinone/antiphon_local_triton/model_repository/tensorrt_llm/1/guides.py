"""Guided decoding: turns the guide of a request into a grammar (GBNF) for llama.cpp.

The types of guides are those of TensorRT-LLM: json, json_schema, regex, ebnf_grammar. llama.cpp crashes on a grammar
that it cannot parse, so a separate process tries each new grammar first.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Callable

from cyllama.llama.llama_cpp import json_schema_to_grammar
from sequences import RequestError

CHECK_TIMEOUT_S = 10
GRAMMARS_KEPT = 256

# A grammar that does not parse leaves a null sampler in the chain. Reading the seed walks the chain and crashes on it.
_TRY_GRAMMAR = """
import sys
from cyllama.llama.llama_cpp import LlamaSampler, LlamaVocab
chain = LlamaSampler()
chain.add_grammar(LlamaVocab(), sys.stdin.read(), "root")
chain.get_seed()
"""


def grammar_for(guide_type: str, guide: str) -> str:
    """The grammar for a guide. Raises RequestError for an unknown type or a guide that does not parse."""
    compile_guide = _COMPILERS.get(guide_type)
    if compile_guide is None:
        raise RequestError(f"unknown guided_decoding_guide_type {guide_type!r}; known: {', '.join(_COMPILERS)}")
    grammar = compile_guide(guide)
    reason = _parse_error(grammar)
    if reason is not None:
        raise RequestError(f"guided_decoding_guide is not a valid {guide_type}: {reason}")
    return grammar


def _any_json(_guide: str) -> str:
    return _from_schema({"type": "object"})


def _json_schema(guide: str) -> str:
    try:
        schema = json.loads(guide)
    except ValueError as error:
        raise RequestError(f"guided_decoding_guide is not JSON: {error}") from error
    return _from_schema(schema)


def _regex(guide: str) -> str:
    """Makes a grammar from a regular expression. llama.cpp supports these only as the pattern of a JSON string, so the
    string's quotes are removed from the grammar."""
    grammar = _from_schema({"type": "string", "pattern": f"^({guide})$"})
    rules = grammar.splitlines()
    head, tail = 'root ::= "\\"" ', ' "\\"" space'
    for number, rule in enumerate(rules):
        if rule.startswith(head) and rule.endswith(tail):
            rules[number] = "root ::= " + rule.removeprefix(head).removesuffix(tail)
            return "\n".join(rules)
    raise RequestError("guided_decoding_guide: llama.cpp cannot turn this regex into a grammar")


def _from_schema(schema: object) -> str:
    try:
        return str(json_schema_to_grammar(schema))
    except (AssertionError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise RequestError(f"guided_decoding_guide cannot be used: {error}") from error


_COMPILERS: dict[str, Callable[[str], str]] = {
    "json": _any_json,
    "json_schema": _json_schema,
    "regex": _regex,
    "ebnf_grammar": str,
}


@functools.lru_cache(maxsize=GRAMMARS_KEPT)
def _parse_error(grammar: str) -> str | None:
    trial = subprocess.run(  # noqa: S603 - the script above
        [f"{sys.prefix}/bin/python3", "-X", "utf8", "-c", _TRY_GRAMMAR],
        input=grammar,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=CHECK_TIMEOUT_S,
        check=False,
    )
    if trial.returncode == 0:
        return None
    lines = [line.strip() for line in trial.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"llama.cpp ended with {trial.returncode}"
