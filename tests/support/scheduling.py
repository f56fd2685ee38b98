"""Assigns tests to the processes of a run: a file at a time, and files that share servers to one process."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

SHARED_SERVERS = (
    # The fixtures `up_system` and `split_system` of tests/conftest.py.
    (
        "tests/clients/test_command_line.py",
        "tests/clients/test_openai_python.py",
        "tests/clients/test_readme.py",
        "tests/clients/test_tutorial.py",
        "tests/faults/test_lost_parts.py",
        "tests/integration/test_whole_system.py",
    ),
    # `client_server` of tests/clients/conftest.py.
    ("tests/clients/test_documented_clients.py", "tests/clients/test_llmprobe.py"),
    # `served_url` of tests/clients/conftest.py.
    (
        "tests/clients/test_open_responses.py",
        "tests/clients/test_open_responses_compaction.py",
        "tests/clients/test_open_responses_websocket.py",
    ),
    # `console_system` and `browser` of tests/console/conftest.py.
    (
        "tests/console/test_accessibility.py",
        "tests/console/test_hostile_text.py",
        "tests/console/test_large_trees.py",
        "tests/console/test_stories.py",
    ),
    # `server` and `chat` of tests/integration/local/conftest.py.
    (
        "tests/integration/local/test_generation.py",
        "tests/integration/local/test_grammars.py",
        "tests/integration/local/test_supervision.py",
        "tests/integration/local/test_tokenizer_exactness.py",
    ),
    # `everything` of tests/support/manifests.py, which starts kubectl 65 times instead of a server.
    (
        "tests/k8s/test_chart.py",
        "tests/k8s/test_linter.py",
        "tests/k8s/test_schemas.py",
        "tests/k8s/test_wiring.py",
    ),
)
"""Groups of files whose session fixtures start the same servers, which two processes would start twice. A missing file
costs only the time of a second start."""

_FIRST_OF_ITS_GROUP = {file: group[0] for group in SHARED_SERVERS for file in group}


class FilesTogether(LoadFileScheduling):  # type: ignore[misc]  # the library has no types
    """Gives each process whole files, and files that share servers to the same process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _FIRST_OF_ITS_GROUP.get(file, file)
