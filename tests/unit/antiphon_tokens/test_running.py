from __future__ import annotations

from antiphon_tokens.generation import Facts, Generation, Token
from antiphon_tokens.load import Load
from antiphon_tokens.replies import Reply
from antiphon_tokens.requests import Answer
from antiphon_tokens.running import Running
from tests.support.triton_backend import Sender

ANSWER = Answer(is_streamed=True, echoes_prompt=False, input_count=False, output_count=False, perf_metrics=False)


def reply(running: Running, request_id: str, arrived_s: float) -> Reply:
    made = Reply(Sender(), request_id, running.remove)
    made.begin(Generation([1], 9), ANSWER)
    made.arrived_s = arrived_s
    running.add(made)
    return made


def test_replies_with_new_tokens_are_looked_at_in_the_next_round() -> None:
    running = Running()
    one = reply(running, "a", 0)
    one.on_tokens([Token(3)], Facts())
    assert [running.idle(), running.idle()] == [[], [one]]


def test_load_counts_requests_by_their_first_token_and_the_oldest_wait() -> None:
    running = Running()
    assert running.load(5) == Load(0, 0, 0)
    first, second = reply(running, "a", 1), reply(running, "b", 3)
    assert running.load(5) == Load(0, 2, 4)
    first.on_tokens([Token(3)], Facts())
    assert running.load(5) == Load(1, 1, 2)
    running.remove(first)
    second.on_tokens([Token(3)], Facts())
    assert running.load(5) == Load(1, 0, 0)
    assert running.find("b") == [second]
