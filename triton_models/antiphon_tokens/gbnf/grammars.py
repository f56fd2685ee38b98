"""The grammars of guides, tried in a process of their own before the engine uses them (`trial.py`).

The trial process is started with the first guide and kept. When it ends in a trial, that guide is rejected and the next
one gets a new process. New guides wait for the trial in progress; guides that were tried do not.
"""

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import IO, cast

from antiphon_tokens.generation import RequestError

TIMEOUT_S = 60
"""The most that a trial may take on a busy machine. Its processor time (CPU_S) is limited in the process itself."""
CPU_S = 4
"""The processor time after which a trial ends its process by SIGPROF."""
KEPT = 256
REASON_CHARS = 300
TRIAL = "antiphon_tokens.gbnf.trial"
CODE = Path(__file__).parents[2]
"""The folder that the package is in: Triton's Python finds it there without a PYTHONPATH, and the trial process not."""


class Grammars:
    """Makes grammars of guides. Safe to use from several threads; trials run one after the other."""

    def __init__(self, gguf: str) -> None:
        self._gguf = gguf
        self._lock = threading.Lock()
        self._trial_lock = threading.Lock()
        self._process: _TrialProcess | None = None
        self._answers: OrderedDict[bytes, dict[str, str]] = OrderedDict()

    def of(self, guide_type: str, guide: str) -> str:
        """The grammar for a guide. Raises RequestError if there is none that the engine can use."""
        key = hashlib.sha256(json.dumps([guide_type, guide]).encode()).digest()
        answer = self._find_cached(key)
        if answer is None:
            with self._trial_lock:
                answer = self._find_cached(key) or self._compile_in_time(guide_type, guide)
            if "retry" not in answer:
                self._keep(key, answer)
        if "error" in answer:
            raise RequestError(answer["error"])
        return answer["grammar"]

    def _find_cached(self, key: bytes) -> dict[str, str] | None:
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def _keep(self, key: bytes, answer: dict[str, str]) -> None:
        with self._lock:
            self._answers[key] = answer
            if len(self._answers) > KEPT:
                self._answers.popitem(last=False)

    def close(self) -> None:
        with self._trial_lock:
            if self._process is not None:
                self._process.end()
                self._process = None

    def _compile_in_time(self, guide_type: str, guide: str) -> dict[str, str]:
        if self._process is None:
            self._process = _TrialProcess(self._gguf)
        answer = self._process.ask([guide_type, guide])
        if answer is not None:
            return answer
        took_too_long, reason = self._process.took_too_long, self._process.end()
        self._process = None
        if took_too_long:  # perhaps because the machine is busy: the next request tries it again
            return {"error": f"the trial of the {guide_type} took longer than {TIMEOUT_S} s", "retry": "yes"}
        return {"error": f"guided_decoding_guide is not a valid {guide_type}: {reason}"}


class _TrialProcess:
    """One running trial process."""

    def __init__(self, gguf: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        replies, written = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603 - a module of this package
            [f"{sys.prefix}/bin/python3", "-X", "utf8", "-m", TRIAL, gguf, str(written)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[written],
            env={**os.environ, "GGML_NO_BACKTRACE": "1", "PYTHONPATH": str(CODE)},
        )
        os.close(written)
        self._requests = cast(IO[bytes], self._process.stdin)
        self.took_too_long = False
        self._replies = os.fdopen(replies, "rb")

    def ask(self, request: list[str]) -> dict[str, str] | None:
        """The answer to a request; None if the process ended, or took too long."""
        self._errors.seek(0)
        self._errors.truncate()
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except OSError:
            return None
        ready, _, _ = select.select([self._replies], [], [], TIMEOUT_S)
        self.took_too_long = not ready
        line = self._replies.readline() if ready else b""
        return json.loads(line) if line.endswith(b"\n") else None

    def end(self) -> str:
        """Ends the process. Returns the reason for which it had ended, in the words of llama.cpp if there are any."""
        self._process.kill()
        status = self._process.wait()
        self._errors.seek(0)
        if status == -signal.SIGPROF:
            return f"its trial takes more than {CPU_S} s of processor time"
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        for file in (self._requests, self._replies, self._errors):
            file.close()
        return lines[0][:REASON_CHARS] if lines else f"llama.cpp cannot use it (status {status})"
