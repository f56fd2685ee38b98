from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.ports.spending import Draw, Hold, Level, Refusal, Spend, Spent
from antiphon_store.spending import wire
from tests.support.sent import sent

names = st.text("abc_", min_size=1, max_size=5)
units = st.floats(0, 10**15)
numbers = st.integers(0, 2**31)
holds = st.builds(Hold, st.lists(names, min_size=1, max_size=3), numbers, numbers)
spends = st.builds(
    Spend,
    st.lists(st.builds(Draw, names, units, units, units, units), max_size=3),
    st.none() | holds,
    st.lists(names, max_size=3),
)
levels = st.builds(Level, names, st.floats(-(10**15), 10**15), units, numbers)
refusals = st.builds(Refusal, names, numbers) | st.just(Refusal(None))
answers = st.builds(Spent, st.lists(levels, max_size=3).map(tuple), st.none() | refusals)


@given(spends, answers)
def test_values_survive_the_wire(spend: Spend, spent: Spent) -> None:
    request = wire.to_spend(spend)
    assert wire.from_spend(sent(request)) == spend
    answer = wire.to_spent(spent)
    assert wire.from_spent(sent(answer)) == spent
