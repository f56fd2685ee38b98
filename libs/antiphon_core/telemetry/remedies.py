"""Advice for operators about errors in the log. Every line of level ERROR has one: `extra=remedies.REPORT`."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core.telemetry.log_fields import REMEDY

Remedy = Mapping[str, str]
"""The fields that a call of `log` adds."""


def _remedy(text: str) -> Remedy:
    return {REMEDY: text}


REPORT = _remedy("This is a bug of Antiphon: report it with this line and the release (antiphon version).")
CHECK_STORE = _remedy(
    "Check whether the store is ready (its log, /v1/health/ready of the edge) and has room. Clients or workers retry "
    "what failed."
)
CHECK_DATABASE = _remedy(
    "Check whether the database runs, has free disk and memory, and accepts the store's connections. The store retries "
    "by itself."
)
RESTORE_DATA = _remedy(
    "Stored bytes have changed on disk: check the disk, and restore the database from a backup or delete this response."
)
RAISE_FILE_LIMIT = _remedy("Raise the limit of open files (ulimit -n, LimitNOFILE), or run more edges.")
CHECK_FILE = _remedy("Correct the file that this line names; it is read again when it changes, without a restart.")
CHECK_AUDIT_LOG = _remedy(
    "Free space for the file that log.audit names, and let this user create and write it. The file is opened again "
    "for the next line, without a restart."
)
CHECK_PROFILE = _remedy(
    "Compare the endpoint, the model's name and the API key in the profile of this model with those of its server: "
    "curl ENDPOINT/models lists what the server has."
)
CHECK_TRITON_MODEL = _remedy(
    "Compare triton_model in the profile of this model with the models of its server: curl -X POST "
    "HOST:8000/v2/repository/index lists them, on the HTTP port."
)
ISOLATE_TENANTS = _remedy(
    'kv_isolation = "tenant" in a profile needs a token-level Triton model of antiphon triton-models with the input '
    'cache_salt, or engine = "vllm_tokens", and the same cache_salt_keys_file of all edges and workers. Otherwise give '
    "each tenant endpoints of its own, or turn the reuse of the KV cache off in the engine."
)
SET_ENDPOINT = _remedy(
    "Prompts are sent to the endpoint of the profile only. If the host that this line names serves the model, set its "
    "URL as the endpoint."
)
RESTORE_KEY = _remedy(
    "Put the line of this key back into the file that store.encryption_keys_file names; the file is read again when it "
    "changes, without a restart."
)
CHECK_KEY = _remedy(
    "Compare the line of this key in the file that store.encryption_keys_file names with your copy, and put the right "
    "one back; the file is read again when it changes. If it is the right key, the bytes have changed on disk: check "
    "the disk, and restore the database from a backup."
)
ADD_MEMORY = _remedy(
    "Raise the memory limit of this process (ulimit -v, the container's limit), or send it fewer requests at once. It "
    "goes on, and rejects what it has no memory for."
)
CHECK_WORKER = _remedy(
    "The process is restarted automatically. If it ends repeatedly, check its log lines before this one, and memory "
    "limits."
)
