"""llama.cpp's own server with one model: `python serve.py GGUF TEMPLATE PORT`, until standard input ends. Runs in the
environment of requirements.txt."""

import sys
from pathlib import Path

import xllamacpp

CONTEXT_TOKENS, SLOTS = 4096, 2


def main(weights: str, template: str, port: str) -> None:
    """Serves the GGUF file `weights` as `smollm2`, with the chat template in the file `template`."""
    options = xllamacpp.CommonParams()
    options.model.path = weights
    options.model_alias = {"smollm2"}
    options.chat_template = Path(template).read_text("utf-8")
    options.n_ctx, options.n_parallel = CONTEXT_TOKENS, SLOTS
    options.default_template_kwargs = {"enable_thinking": "false"}
    options.use_jinja = options.endpoint_metrics = True
    options.hostnames = ["127.0.0.1"]
    options.port = int(port)
    server = xllamacpp.Server(options)
    print(f"serving at {server.listening_address}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
