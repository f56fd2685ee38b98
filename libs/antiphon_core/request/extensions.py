"""Parameters beyond OpenAI's: `nvext`, with the members that NVIDIA's own frontends have.

https://docs.nvidia.com/dynamo/additional-resources/nvidia-request-extensions-nvext
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.models import Exact

StopTexts = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=limits.STOP_TEXT_CHARS_MAX)]],
    Field(max_length=limits.STOP_TEXTS_ITEMS_MAX),
]


Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
"""In the 32 bits that every engine takes."""


class Extensions(Exact):
    """Sampling and decoding that OpenAI has no words for. `greedy` is also known as `greed_sampling`.

    At most one of the members `guided_*` says what the whole answer must look like: a JSON schema, a regular
    expression, a grammar in EBNF, or one of some texts.
    """

    top_k: Annotated[int, Field(ge=-1)] | None = None
    """Only this many of the most likely tokens are chosen from; -1 and 0 are all of them."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Only tokens are chosen from that are at least this fraction as likely as the most likely one."""
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    """The weight of a token is divided by this number once the token was written; 1 changes nothing."""
    greedy: Annotated[bool | None, Field(validation_alias=AliasChoices("greedy", "greed_sampling"))] = None
    """Always the most likely token: temperature 0, whatever else is said."""
    ignore_eos: bool | None = None
    """Only the length ends the answer."""
    guided_json: Object | None = None
    """The whole answer is JSON of this schema."""
    guided_regex: Annotated[str, Field(min_length=1, max_length=limits.GUIDE_CHARS_MAX)] | None = None
    """The whole answer matches this regular expression."""
    guided_grammar: Annotated[str, Field(min_length=1, max_length=limits.GUIDE_CHARS_MAX)] | None = None
    """The whole answer is a text of this grammar, in EBNF."""
    guided_choice: Annotated[list[str], Field(min_length=1, max_length=limits.GUIDE_CHOICES_ITEMS_MAX)] | None = None
    """The whole answer is one of these texts."""

    @property
    def guides(self) -> list[str]:
        """The names of those that say what the answer must look like."""
        return [name for name in _GUIDES if getattr(self, name) is not None]

    def sampling(self) -> Object:
        """The members that say how the next token is chosen, by the names that chat completions give them."""
        wishes: Object = {name: getattr(self, name) for name in _SAMPLING if getattr(self, name) is not None}
        if self.greedy:
            wishes["temperature"] = 0.0
        if wishes.get("top_k") == -1:
            wishes["top_k"] = 0
        return wishes

    def require_one_guide(self, others: list[str]) -> None:
        """InvalidRequest: more than one thing says what the answer must look like; `others` are outside of nvext."""
        given = [*others, *(f"nvext.{name}" for name in self.guides)]
        if len(given) > 1:
            named = " and ".join(f"'{each}'" for each in given)
            raise InvalidRequest(f"{named} exclude each other.", code="mutually_exclusive_parameters")


_SAMPLING = ("top_k", "min_p", "repetition_penalty")
_GUIDES = ("guided_json", "guided_regex", "guided_grammar", "guided_choice")
