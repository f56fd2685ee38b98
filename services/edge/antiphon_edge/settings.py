"""What an operator can set about the edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    host: str = field(default="127.0.0.1", metadata={"doc": "Address to listen on."})
    port: int = field(
        default=8000, metadata={"doc": "Port to listen on; 0 lets the system choose.", "alias": "NIM_HTTP_API_PORT"}
    )
    store: str = field(
        default="",
        metadata={"doc": "gRPC target of the store, such as dns:///store:50051; empty uses the one in this process."},
    )
    translator: str = field(
        default="",
        metadata={"doc": "gRPC target of the translator; empty uses the one in this process."},
    )
    keep_alive_s: float = field(
        default=15.0, metadata={"doc": "Seconds of silence on a stream after which a comment is sent."}
    )
    drain_s: float = field(default=30.0, metadata={"doc": "Seconds that running requests get to end after SIGTERM."})

    def warnings(self) -> Iterator[tuple[str, str]]:
        if self.host not in ("127.0.0.1", "::1", "localhost"):
            yield (
                f"The edge listens on {self.host}, and requests are not authenticated.",
                "Anybody who reaches the port can use the models and read every stored response of the default "
                "tenant. Put an authenticating proxy in front, or listen on 127.0.0.1.",
            )
