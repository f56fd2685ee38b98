from __future__ import annotations

from antiphon_http2.keepalive import Keepalive, Step


def test_silence_leads_to_a_ping_and_then_to_giving_up() -> None:
    keepalive = Keepalive(300, 20, now_s=0)
    assert keepalive.due_s == 300
    assert keepalive.step(300, has_calls=True) is Step.PING
    assert keepalive.due_s == 320
    assert keepalive.step(319, has_calls=True) is Step.WAIT
    assert keepalive.step(320, has_calls=True) is Step.GIVE_UP


def test_traffic_puts_the_ping_off() -> None:
    keepalive = Keepalive(300, 20, now_s=0)
    keepalive.note_received(299)
    assert keepalive.step(300, has_calls=True) is Step.WAIT
    assert keepalive.due_s == 599
    assert keepalive.step(599, has_calls=True) is Step.PING


def test_anything_that_comes_answers_a_ping() -> None:
    keepalive = Keepalive(300, 20, now_s=0)
    keepalive.step(300, has_calls=True)
    keepalive.note_received(310)
    assert keepalive.step(320, has_calls=True) is Step.WAIT
    assert keepalive.due_s == 610


def test_timeout_of_a_ping_begins_again_when_the_process_was_stopped() -> None:
    keepalive = Keepalive(300, 20, now_s=0)
    keepalive.step(300, has_calls=True)
    assert keepalive.step(340, has_calls=True) is Step.WAIT
    assert keepalive.due_s == 360
    assert keepalive.step(360, has_calls=True) is Step.GIVE_UP


def test_idle_connection_is_not_pinged() -> None:
    keepalive = Keepalive(300, 20, now_s=0)
    assert keepalive.step(300, has_calls=False) is Step.WAIT
    assert keepalive.due_s == 600
    assert keepalive.step(600, has_calls=True) is Step.PING


def test_silence_counts_from_the_last_sign_of_life() -> None:
    keepalive = Keepalive(300, 20, now_s=10)
    assert keepalive.silence_s(25) == 15
    keepalive.note_received(24)
    assert keepalive.silence_s(25) == 1
