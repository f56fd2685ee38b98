from __future__ import annotations

from antiphon_http2.client.options import Options


def test_defaults_ping_no_more_often_than_servers_allow() -> None:
    assert Options().keepalive_interval_s >= 300


def test_defaults_try_a_restarted_server_within_about_a_second() -> None:
    assert Options().backoff_first_s <= Options().backoff_max_s <= 1
