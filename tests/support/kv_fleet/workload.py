"""Conversations of agents as trees, from a seed: a tool loop with pauses, forks and children.

Its figures are those of published traces of coding agents: a system prompt of 12,000 tokens that all share, one of
about 6,000 for each of twelve applications, of which the first is the most popular; then turns of 1,200 new tokens and
400 of output. 15 of 100 pauses are a person's. A branch is continued from an earlier turn once in 25 turns (edited, or
written anew), and as often a child explores from a turn with its whole history.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from tests.support.kv_fleet.blocks import Chain

ALL_SHARE_TOKENS = 12_000
APPLICATIONS = 12
FORK_CHANCE = CHILD_CHANCE = 0.04
HUMAN_CHANCE = 0.15


def lognormal(random: Random, median: float, mean: float, least: float, most: float) -> float:
    """A number with this median and mean, within bounds."""
    spread = math.sqrt(max(2 * math.log(mean / median), 1e-6))
    return max(least, min(most, random.lognormvariate(math.log(median), spread)))


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation before its first turn: the shared root, and the prompt's beginning with it."""

    key: str
    root_key: str
    root_tokens: int
    beginning: Chain
    turns: int
    seed: int


@dataclass(frozen=True, slots=True)
class NextTurn:
    """The tokens of input and of output that a turn adds."""

    input_tokens: int
    output_tokens: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """The time before the next turn: a person's, or a tool's."""

    seconds: float
    is_human: bool


def sessions(seed: int, count: int) -> list[Session]:
    random = Random(seed)
    everyone = Chain().add(ALL_SHARE_TOKENS, b"everyone")
    roots = [
        everyone.copy().add(int(lognormal(random, 6_000, 7_000, 2_000, 15_000)), b"application %d" % number)
        for number in range(APPLICATIONS)
    ]
    popularity = [1 / (number + 1) ** 1.2 for number in range(APPLICATIONS)]
    return [_session(random, number, roots, popularity) for number in range(count)]


def _session(random: Random, number: int, roots: list[Chain], popularity: list[float]) -> Session:
    (application,) = random.choices(range(len(roots)), popularity)
    root, key = roots[application], f"session-{number}"
    beginning = root.copy().add(int(lognormal(random, 1_500, 2_500, 100, 12_000)), key.encode())
    turns = int(lognormal(random, 16, 20, 3, 60))
    return Session(key, f"application-{application}", root.tokens, beginning, turns, random.getrandbits(64))


def one_shot(random: Random) -> NextTurn:
    """A request that nothing continues: a document to summarise, a text to translate."""
    given = int(lognormal(random, 6_000, 9_000, 500, 40_000))
    return NextTurn(given, int(lognormal(random, 200, 300, 10, 2_000)), random.randbytes(8))


class Script:
    """The decisions of one branch, from its seed: equal for every router, whatever the times."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def next_turn(self) -> NextTurn:
        new = int(lognormal(self.random, 700, 1_200, 30, 12_000))
        output = int(lognormal(self.random, 250, 400, 20, 4_000))
        return NextTurn(new, output, self.random.randbytes(8))

    def turns_back(self, turns: int) -> int:
        """How many turns up the branch continues; 0 for nearly always."""
        return min(turns, self.random.choice((1, 1, 2, 3))) if turns and self.random.random() < FORK_CHANCE else 0

    def has_child(self) -> bool:
        return self.random.random() < CHILD_CHANCE

    def child(self) -> tuple[int, int, float]:
        """A child's number of turns, its seed, and the pause before its first turn."""
        return self.random.randint(3, 8), self.random.getrandbits(64), lognormal(self.random, 1, 2, 0.1, 10)

    def pause(self) -> Pause:
        if self.random.random() < HUMAN_CHANCE:
            return Pause(lognormal(self.random, 25, 60, 3, 600), is_human=True)
        return Pause(lognormal(self.random, 1.5, 4, 0.05, 120), is_human=False)
