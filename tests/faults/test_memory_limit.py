"""A process has a hard limit of memory: what does not fit ends its own request, with an error that clients retry."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from antiphon_core.errors import Unavailable
from antiphon_core.jsons import loads
from antiphon_core.unexpected import as_antiphon_error
from tests.support.children import start_child

_MIB = 2**20
# Room for the bytes that orjson copies, but not for the values, which take eight times as much.
_PROGRAM = """
import resource
from pathlib import Path
from tests.faults import test_memory_limit

body = b"[" + b"1," * ({size} // 2) + b"1]"
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 4 * {size}, resource.RLIM_INFINITY))
print(test_memory_limit.outcome(body), test_memory_limit.outcome(b"[1]"))
"""


def outcome(body: bytes) -> str:
    """The kind of error with which a request with this body ends."""
    try:
        loads(body)
    except Exception as error:  # noqa: BLE001 - as at the boundaries of the services
        return type(as_antiphon_error(error, "a request", "")).__name__
    return "ok"


async def test_json_that_does_not_fit_into_memory_is_no_error_of_the_client() -> None:
    """orjson reports it as malformed JSON, which clients got as a 400."""
    program = _PROGRAM.format(size=8 * _MIB)
    child = start_child([sys.executable, "-c", program], cwd=Path(__file__).parents[2], stdout=-1, text=True)
    printed, _ = await asyncio.to_thread(child.communicate)
    assert printed.split() == [Unavailable.__name__, "ok"]
