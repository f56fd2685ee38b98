from threading import Event, Thread
from typing import Any

import pytest

from antiphon_tokens.generation import Facts, FinishReason, Generation, Token
from antiphon_tokens.replies import Reply
from antiphon_tokens.requests import Answer
from tests.support.triton_backend import LOGGED, Sender, TritonError
from tests.support.waiting import WAIT_MAX_S

NOTHING = Facts()
STREAMED = Answer(is_streamed=True, echoes_prompt=True, input_count=False, output_count=False, perf_metrics=False)
IDS = ("output_ids", "sequence_length")


class Conversation:
    """A reply with its sender, and whether it is done."""

    def __init__(self, answer: Answer = STREAMED, sender: Sender | None = None, **changes: Any) -> None:
        settings: dict[str, Any] = {"prompt": [1, 2], "tokens_max": 4, "end_id": 9, "stop_words": ((6, 7),), **changes}
        self.sender, self.done = sender or Sender(), list[Reply]()
        self.reply = Reply(self.sender, "r-1", self.done.append)
        self.reply.begin(Generation(**settings), answer)

    def say(self, *ids: int, facts: Facts = NOTHING) -> bool:
        return self.reply.on_tokens([Token(number, -0.5) for number in ids], facts)

    def ids(self) -> list[list[int]]:
        return [outputs["output_ids"] for outputs in self.sender.outputs()]


def test_each_step_is_a_response_with_its_new_ids() -> None:
    talk = Conversation()
    assert [talk.say(3), talk.say(4, 5)] == [True, True]
    assert talk.sender.outputs() == [
        {"output_ids": [3], "sequence_length": [1]},
        {"output_ids": [4, 5], "sequence_length": [2]},
    ]
    assert not talk.sender.is_closed()


@pytest.mark.parametrize(
    ("steps", "ids", "finish"),
    [
        ([[3], [9]], [[3], []], b"stop"),
        ([[3], [6], [7, 8]], [[3], [6], [7]], b"stop"),
        ([[3, 3, 3], [3, 3]], [[3, 3, 3], [3]], b"length"),
    ],
)
def test_last_response_is_sent_at_the_end_of_the_output_and_names_the_reason(
    steps: list[list[int]], ids: list[list[int]], finish: bytes
) -> None:
    talk = Conversation()
    wanted = [talk.say(*step) for step in steps]
    assert wanted == [True] * (len(steps) - 1) + [False]
    assert talk.ids() == ids
    assert (talk.sender.outputs()[-1]["finish_reason"], talk.sender.is_closed()) == ([finish.decode()], True)
    talk.reply.on_end(FinishReason.CANCELLED)
    assert (len(talk.sender.sent), talk.done) == (len(steps), [talk.reply])


def test_end_that_the_engine_finds_is_a_last_response_without_ids() -> None:
    talk = Conversation()
    talk.say(3)
    talk.reply.on_end(FinishReason.STOP)
    assert talk.ids() == [[3], []]
    assert talk.sender.outputs()[-1]["finish_reason"] == ["stop"]


def test_without_streaming_there_is_one_response_with_the_prompt() -> None:
    for echoes_prompt, ids in ((True, [1, 2, 3, 4]), (False, [3, 4])):
        talk = Conversation(Answer(False, echoes_prompt, False, False, False))
        assert talk.say(3, 4)
        assert talk.sender.sent == []
        talk.say(9)
        assert talk.ids() == [ids]


def test_counts_and_log_probabilities_belong_to_the_new_ids() -> None:
    talk = Conversation(Answer(True, False, True, True, False), log_probs=True, top_log_probs=1)
    talk.reply.on_tokens([Token(3, -0.5, ((3, -0.5),)), Token(4, -0.25, ((5, -0.125),))], NOTHING)
    talk.reply.on_end(FinishReason.STOP)
    first, last = talk.sender.outputs()
    assert (first["num_input_tokens"], first["num_output_tokens"]) == ([2], [2])
    assert (first["output_log_probs"], first["cum_log_probs"]) == ([-0.5, -0.25], [-0.75])
    assert (first["top_log_prob_ids"], first["top_log_prob_values"]) == ([3, 5], [-0.5, -0.125])
    assert (last["num_output_tokens"], last["output_log_probs"], last["cum_log_probs"]) == ([0], [], [-0.75])


def test_facts_come_with_the_first_ids_and_at_the_end_if_the_engine_says_them() -> None:
    talk = Conversation(Answer(True, False, False, False, perf_metrics=True))
    talk.say(3, facts=Facts(cached_tokens=2, queue_ns=2**40))
    talk.say(4, facts=Facts(2, 2**40))
    talk.say(9, facts=Facts(2, 2**40, 7))
    found = [{name: value for name, value in one.items() if name not in IDS} for one in talk.sender.outputs()]
    assert found == [
        {"cached_tokens": [2], "queue_ns": [2**40]},
        {},
        {"cached_tokens": [2], "queue_ns": [2**40], "prefill_ns": [7], "finish_reason": ["stop"]},
    ]


@pytest.mark.parametrize("leaves", ["cancelled", "is_stopped"])
def test_client_that_is_gone_ends_the_generation_and_is_logged(leaves: str) -> None:
    talk = Conversation()
    assert talk.say(3)
    setattr(talk.sender if leaves == "cancelled" else talk.reply, leaves, True)
    assert not talk.say(4)
    talk.reply.on_end(FinishReason.CANCELLED)
    assert LOGGED[-1] == "cancelled after 2 tokens request_id=r-1"
    assert (talk.sender.is_closed(), talk.reply.is_unwanted()) == (True, False)


@pytest.mark.parametrize(("is_request", "code"), [(True, TritonError.INVALID_ARG), (False, TritonError.INTERNAL)])
def test_error_is_the_last_response(is_request: bool, code: int) -> None:
    talk = Conversation()
    talk.say(3)
    talk.reply.on_error("it broke", is_request=is_request)
    assert talk.sender.error() == TritonError("it broke", code)
    assert (talk.sender.is_closed(), talk.done) == (True, [talk.reply])


def test_response_that_cannot_be_sent_breaks_nothing() -> None:
    talk = Conversation(sender=Sender(broken=True))
    assert talk.say(3)
    assert LOGGED[-1] == "response not sent: the stream is closed"


def test_reply_is_idle_until_a_token_comes() -> None:
    talk = Conversation()
    assert talk.reply.is_idle
    talk.say(3)
    assert not talk.reply.is_idle


def test_a_last_response_that_cannot_be_built_is_an_error() -> None:
    talk = Conversation(Answer(False, False, False, False, False))
    assert talk.say(2**40)  # no number of four bytes
    talk.reply.on_end(FinishReason.STOP)
    assert talk.sender.is_closed()
    error = talk.sender.error()
    assert error is not None
    assert "the model failed" in error.message


class SlowlyAsked(Sender):
    """A sender whose answer to `is_cancelled` takes until the test lets it come."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = Event(), Event()
        self.sent_while_asked = 0

    def is_cancelled(self) -> bool:
        self.is_asked.set()
        assert self.may_answer.wait(WAIT_MAX_S)
        self.sent_while_asked = len(self.sent)
        return False


@pytest.mark.parametrize("fails", [False, True])
def test_last_response_waits_for_a_look_at_the_client_and_none_follows_it(fails: bool) -> None:
    """Triton crashes where it is asked about a request that has its last response."""
    sender = SlowlyAsked()
    reply = Conversation(sender=sender).reply
    looking = Thread(target=reply.is_unwanted)
    looking.start()
    assert sender.is_asked.wait(WAIT_MAX_S)
    end = (lambda: reply.on_error("no room", is_request=False)) if fails else (lambda: reply.on_end(FinishReason.STOP))
    ending = Thread(target=end)
    ending.start()
    ending.join(0.05)
    sender.may_answer.set()
    for each in (looking, ending):
        each.join(WAIT_MAX_S)
    assert (sender.sent_while_asked, sender.is_closed()) == (0, True)
    sender.is_asked.clear()
    assert not reply.is_unwanted()
    assert not sender.is_asked.is_set()
