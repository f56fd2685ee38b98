"""The Triton side of the token-level model. It behaves like TensorRT-LLM's `tensorrt_llm` where clients rely on that:

* `input_ids` is the whole prompt: nothing is added to it, and it is cut to `input_lengths`.
* A streaming response has the NEW ids only.
* `end_id` ends the generation and is never part of `output_ids`: the last response may hold no id at all. The ids of a
  matched stop word ARE part of the output.
* A request with `stop` = true and the request id of a running request ends that request.

Added: the tensors of the features in `signature`, and `finish_reason` in the last response.

Errors are sent as responses (TritonError). A cancellation takes effect within one token, because each token is a look
at the client; a thread looks for those whose tokens have yet to come.

Requests are noted in the order in which Triton hands them over, and read and submitted on other threads. So a stop
request finds every request before it, also one that is still read. Requests with guides have threads of their own: a
new guide may take seconds, and must not delay requests without one.
"""

import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from antiphon_tokens import arguments, engine, load, requests, signature
from antiphon_tokens.generation import FinishReason, RequestError, fit
from antiphon_tokens.replies import Reply
from antiphon_tokens.running import Running

READING_THREADS = 2
GUIDE_THREADS = 32
"""As many new guides may wait for the trial in progress before guides that are known wait, too."""
WATCH_S = 0.1


class TritonPythonModel:
    """The class that Triton makes an instance of, and calls."""

    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        name = config["parameters"]["engine"]["string_value"]
        given = arguments.read(Path(args["model_repository"]) / args["model_version"] / arguments.FILE)
        wanted = signature.features_of({each["name"] for each in config["input"]})
        self.engine = engine.module(name).load(given, wanted)
        self.running = Running()
        self.metrics = load.metrics_of(config["name"], args["model_version"])
        self.reading = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="read")
        self.guiding = ThreadPoolExecutor(GUIDE_THREADS, thread_name_prefix="guide")
        self.closing = threading.Event()
        self.watching = threading.Thread(target=self.watch, name="watch", daemon=True)
        self.watching.start()
        pb_utils.Logger.log_info(f"{config['name']}: {self.engine.capabilities().title} is ready")

    def execute(self, batch: list[Any]) -> None:
        """Does not block: the engine's thread answers each request through its response sender."""
        for request in batch:
            self.accept(request)

    def finalize(self) -> None:
        self.closing.set()
        self.reading.shutdown()
        self.guiding.shutdown()
        self.watching.join()
        self.engine.close()

    def accept(self, request: Any) -> "Future[None] | None":
        """Notes a request, and returns its submission; None for a stop request, which is done."""
        reply = Reply(request.get_response_sender(), request.request_id(), self.running.remove)
        if requests.is_stop(request):
            self.stop(reply)
            return None
        self.running.add(reply)
        threads = self.guiding if requests.has_guide(request) else self.reading
        return threads.submit(self.submit, request, reply)

    def submit(self, request: Any, reply: Reply) -> None:
        try:
            generation = fit(requests.read_generation(request), self.engine.capabilities().limits)
            reply.begin(generation, requests.read_answer(request))
            if reply.is_unwanted():
                reply.on_end(FinishReason.CANCELLED)
                return
            self.engine.submit(generation, reply)
            if reply.is_stopped:  # meanwhile, when the engine did not know it yet
                self.engine.cancel(reply)
        except RequestError as error:
            reply.on_error(str(error), is_request=True)
        except Exception as error:  # noqa: BLE001 - a request must always get an answer
            pb_utils.Logger.log_error(f"request_id={reply.request_id} was not submitted: {error!r}")
            reply.on_error(f"the model failed: {error!r}", is_request=False)

    def stop(self, reply: Reply) -> None:
        """Ends the requests of the id that this stop request has."""
        if not reply.request_id:
            reply.on_error("a stop request needs the request id of the request to stop", is_request=True)
            return
        for other in self.running.find(reply.request_id):
            other.is_stopped = True
            self.engine.cancel(other)
        reply.close()

    def watch(self) -> None:
        """Cancels generations whose clients have gone while no token came: those that wait, or read a long prompt.
        Shows the load of the model."""
        while not self.closing.wait(WATCH_S):
            for reply in self.running.idle():
                if reply.is_unwanted():
                    self.engine.cancel(reply)
            if self.metrics is not None:
                self.metrics.show(self.running.load(time.monotonic()))
