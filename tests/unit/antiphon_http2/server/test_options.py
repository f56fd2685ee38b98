from __future__ import annotations

from antiphon_http2.server.options import ServerOptions


def test_calls_outlive_the_age_of_their_connection() -> None:
    assert ServerOptions().age_grace_s > ServerOptions().age_s


def test_a_dead_client_is_noticed_before_its_connection_is_old() -> None:
    assert ServerOptions().keepalive_interval_s + ServerOptions().keepalive_timeout_s < ServerOptions().age_s
