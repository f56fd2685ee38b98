from __future__ import annotations

from contextlib import nullcontext

import pytest

from antiphon_core.errors import RequestRateExceeded, Unavailable
from antiphon_core.free_memory import FreeMemory
from antiphon_core.process_load import ProcessLoad
from antiphon_edge.quotas.load_shedding import LoadLimits, LoadShedder


def shedder(turns: int, *, lag_s: float = 0.0) -> LoadShedder:
    return LoadShedder(LoadLimits(turns, lag_s), ProcessLoad(memory_limit_bytes=2**50))


async def admitted(shedding: LoadShedder, tenant: str, tries: int) -> int:
    """The number of turns that are admitted in so many tries."""
    count = 0
    for _ in range(tries):
        try:
            await shedding.begin(tenant)
        except RequestRateExceeded:
            continue
        count += 1
    return count


async def test_single_tenant_gets_four_fifths_of_the_turns() -> None:
    assert await admitted(shedder(100), "a", 200) == 80


async def test_greedy_tenants_leave_room_for_another() -> None:
    shedding = shedder(1_000)
    for number in range(3):
        await admitted(shedding, f"greedy-{number}", 1_000)
    assert await admitted(shedding, "victim", 5) == 5


async def test_a_turn_that_ended_is_not_counted() -> None:
    shedding = shedder(1)
    for _ in range(3):
        turn = await shedding.begin("a")
        with pytest.raises(Unavailable) as refused:
            await shedding.begin("b")
        assert int(refused.value.facts["retry_after_ms"]) >= 1_000
        turn.end()


async def test_bytes_of_turns_are_shared_and_returned_when_they_end() -> None:
    shedding = LoadShedder(LoadLimits(turns_bytes=100), ProcessLoad(memory_limit_bytes=2**50))
    turns = [await shedding.begin("a") for _ in range(9)]
    for turn in turns[:8]:
        turn.bytes.add(10)
    with pytest.raises(RequestRateExceeded, match="turns_bytes_max"):
        turns[8].bytes.add(10)
    other = await shedding.begin("b")
    other.bytes.add(10)
    with pytest.raises(Unavailable, match="turns_bytes_max"):
        (await shedding.begin("c")).bytes.add(20)
    turns[0].end()
    (await shedding.begin("c")).bytes.add(20)


async def test_without_limits_nothing_is_rejected() -> None:
    assert await admitted(shedder(0), "a", 5_000) == 5_000


@pytest.mark.parametrize(("bytes_behind", "is_admitted"), [(60, True), (95, False)])
async def test_turn_is_rejected_for_memory_only_when_returning_free_memory_does_not_help(
    bytes_behind: int, is_admitted: bool
) -> None:
    used = [95]

    def trim() -> None:
        used[0] = bytes_behind

    load = ProcessLoad(memory_limit_bytes=100, used_bytes=lambda: used[0], free=FreeMemory(trim=trim))
    admits = nullcontext() if is_admitted else pytest.raises(Unavailable, match="short of memory")
    with admits:
        await LoadShedder(LoadLimits(), load).begin("t")
