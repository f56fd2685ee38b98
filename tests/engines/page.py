"""docs/reference/engines.md: which real servers were tried, in which version, with which result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.engines.gateway_checks import CHECKS
from tests.engines.servers import Kind

_HEAD = """# Real engines

Written by `make engines`, which installs these servers, pinned by hash, starts them on the CPU with SmolLM2-135M, asks
them for each kind of answer and of error, and then asks `antiphon up --openai` before them. `ok` passed; any other
field says what was found. "Recordings" counts the answers whose members have the names and types of the recorded ones
in `tests/golden/engines`, which `make test` reads. SmolLM2 neither calls nor thinks by itself: a guide or
its prompt makes it write what the server's parsers read.

"""


@dataclass(frozen=True)
class Results:
    """Findings at one server: how many recordings still fit, those that do not, and what each check found."""

    fitting: int
    changed: Sequence[str]
    findings: Mapping[str, str]

    @property
    def recordings(self) -> str:
        total = self.fitting + len(self.changed)
        changed = f"; changed: {', '.join(self.changed)}" if self.changed else ""
        return f"{self.fitting} of {total}{changed}"


def page(results: Mapping[Kind, Results]) -> str:
    """The page."""
    lines = [_row("", *(kind.title for kind in results)), "|---" * (len(results) + 1) + "|"]
    lines.append(_row("Package", *(f"`{kind.engine.package}` {kind.engine.version}" for kind in results)))
    lines.append(_row("Recordings", *(each.recordings for each in results.values())))
    lines += [_row(name, *(each.findings[name] for each in results.values())) for name in CHECKS]
    return _HEAD + "\n".join(lines) + "\n" + _NOTES


def _row(*fields: str) -> str:
    return "| " + " | ".join(fields) + " |"


_NOTES = """
## Known gaps

- llama.cpp's grammar for a forced call lets any text come first. A model that does not call by itself can reach its
  limit of tokens before it calls. Here the prompt repeats the opener of a call.
- llama.cpp ignores a `tool_choice` that names a function. Antiphon sends `required` with this function alone.
- No answer of the small model behind vLLM ended its reasoning: a guide writes the letters of `</think>`, not the token
  that vLLM's parser looks for. Reasoning followed by text is recorded of llama.cpp only.

## Not tried

- Refusals: this model does not refuse.
- Ollama, SGLang, TGI, LMDeploy and `transformers serve`.
- Any server on a GPU.
"""
