"""The server of the metrics port: prometheus_client's, with bounds. Import it only where metrics are served.

The port needs no credential, and each connection gets a thread. Without bounds, silent connections took a thread and an
open file each, up to the limit of the process, and requests in a loop kept Python's global lock from all other threads.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

CONNECTIONS_ITEMS_MAX = 32
TIMEOUT_S = 5.0
"""How long a connection may be silent."""
REST_MAX_S = 0.5

_App = Callable[[Any, Any], Iterable[bytes]]


def serve(registry: CollectorRegistry, host: str, port: int) -> tuple[MetricsPort, threading.Thread]:
    """Listens and serves in threads. OSError: it cannot listen."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    kind = type("_MetricsPort", (MetricsPort,), {"address_family": family})
    app: Any = RestingApp(make_wsgi_app(registry))
    server: MetricsPort = make_server(str(address[0]), port, app, kind, handler_class=_Handler)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    return server, thread


class MetricsPort(ThreadingWSGIServer):
    """Serves CONNECTIONS_ITEMS_MAX connections at once. The oldest one gives way to a new one."""

    request_queue_size = 128  # socketserver's 5 make clients wait for seconds while others connect

    def __init__(self, *given: Any, **options: Any) -> None:
        self._open: dict[Any, None] = {}
        self._lock = threading.Lock()
        super().__init__(*given, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= CONNECTIONS_ITEMS_MAX:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs nothing: any client can cause such an error, by a reset or by silence."""


class RestingApp:
    """Calls an application once at a time, and then rests as long as it took: it has half of the process's time at
    most, however many clients ask."""

    def __init__(self, app: _App, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._app = app
        self._sleep = sleep
        self._lock = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with self._lock:
            began_s = time.perf_counter()
            answer = list(self._app(environ, start_response))
            self._sleep(min(time.perf_counter() - began_s, REST_MAX_S))
        return answer


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Logs nothing."""
