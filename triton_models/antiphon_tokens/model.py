"""The Triton side of the token-level model. It behaves like TensorRT-LLM's `tensorrt_llm` where clients rely on that:

* `input_ids` is the whole prompt: nothing is added to it, and it is cut to `input_lengths`.
* A streaming response has the NEW ids only.
* `end_id` ends the generation and is never part of `output_ids`: the last response may hold no id at all. The ids of a
  matched stop word ARE part of the output.
* A request with `stop` = true and the request id of a running request ends that request.

Added: the tensors of the features in `signature`, and `finish_reason` in the last response.

Errors are sent as responses (TritonError). A cancellation takes effect within one token, because each token is a look
at the client; a thread looks for those whose tokens have yet to come.
"""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from antiphon_tokens import arguments, engine, requests, signature, tensors
from antiphon_tokens.generation import RequestError, fit
from antiphon_tokens.replies import Reply

PREPARING_THREADS = 2
"""The threads that read requests and submit them: an engine may take a while for a new guide."""
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
        self.preparing = ThreadPoolExecutor(PREPARING_THREADS, thread_name_prefix="prepare")
        self.closing = threading.Event()
        self.watching = threading.Thread(target=self.watch, name="watch", daemon=True)
        self.watching.start()
        pb_utils.Logger.log_info(f"{config['name']}: {self.engine.capabilities().title} is ready")

    def execute(self, batch: list[Any]) -> None:
        """Does not block: the engine's thread answers each request through its response sender."""
        for request in batch:
            self.preparing.submit(self.start, request, request.get_response_sender())

    def finalize(self) -> None:
        self.closing.set()
        self.preparing.shutdown()
        self.watching.join()
        self.engine.close()

    def start(self, request: Any, sender: Any) -> None:
        try:
            if requests.is_stop(request):
                self.stop(request.request_id())
                tensors.close(sender)
            else:
                self.generate(request, sender)
        except RequestError as error:
            tensors.respond_error(sender, str(error), is_request=True)
        except Exception as error:  # noqa: BLE001 - a request must always get an answer
            pb_utils.Logger.log_error(f"request_id={request.request_id()} failed: {error!r}")
            tensors.respond_error(sender, f"the model failed: {error!r}", is_request=False)

    def generate(self, request: Any, sender: Any) -> None:
        limits = self.engine.capabilities().limits
        generation = fit(requests.read_generation(request), limits)
        answer = requests.read_answer(request)
        reply = Reply(sender, request.request_id(), generation, answer, self.running.remove)
        self.running.add(reply)
        try:
            self.engine.submit(generation, reply)
        except RequestError as error:
            reply.on_error(str(error), is_request=True)
        except Exception as error:  # noqa: BLE001 - a request must always get an answer
            pb_utils.Logger.log_error(f"request_id={request.request_id()} was not submitted: {error!r}")
            reply.on_error(f"the model failed: {error!r}", is_request=False)

    def stop(self, request_id: str) -> None:
        if not request_id:
            raise RequestError("a stop request needs the request id of the request to stop")
        for reply in self.running.find(request_id):
            reply.is_stopped = True
            self.engine.cancel(reply)

    def watch(self) -> None:
        """Cancels generations whose clients have gone while no token came: those that wait, or read a long prompt."""
        while not self.closing.wait(WATCH_S):
            for reply in self.running.idle():
                if reply.is_unwanted():
                    self.engine.cancel(reply)


class Running:
    """The replies that are under way. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replies: set[Reply] = set()

    def add(self, reply: Reply) -> None:
        with self._lock:
            self._replies.add(reply)

    def remove(self, reply: Reply) -> None:
        with self._lock:
            self._replies.discard(reply)

    def find(self, request_id: str) -> list[Reply]:
        with self._lock:
            return [reply for reply in self._replies if reply.request_id == request_id]

    def idle(self) -> list[Reply]:
        """Those to which no token came since the last call."""
        with self._lock:
            found = [reply for reply in self._replies if reply.is_idle]
            for reply in self._replies:
                reply.is_idle = True
            return found
