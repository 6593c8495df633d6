"""What keeps a ServiceCIDR is known without looking at all addresses again."""

from hypothesis import given
from hypothesis import strategies as st

from kcm_host_servicecidrs.indexes import Addresses, Ranges
from kcm_host_servicecidrs.models import ALLOCATOR, IPAddress, Labelled, Labels
from kcm_host_servicecidrs.prefixes import Address
from kcm_host_servicecidrs.state import Keepers, Memory

CIDRS = ("10.0.0.0/28", "10.0.0.0/29", "10.0.0.8/29", "10.0.0.0/24", "2001:db8::/124")
NAMES = (*(f"10.0.0.{number}" for number in range(20)), "2001:db8::1", "2001:db8::2")


class CountingRanges(Ranges):
    """Ranges that count how often they were asked about an address."""

    asked = 0

    def serving(self, address: Address) -> list[str]:
        """See `Ranges.serving`."""
        self.asked += 1
        return super().serving(address)


def ip(family: str | None = "IPv4", manager: str = ALLOCATOR) -> IPAddress:
    """Return an IPAddress."""
    return IPAddress(Labelled(Labels(managed_by=manager, family=family)))


ADDRESSES = st.builds(
    ip, st.sampled_from(("IPv4", "IPv6", None)), st.sampled_from((ALLOCATOR, ALLOCATOR, "other"))
)
STEPS = st.one_of(
    st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from(CIDRS), max_size=2)),
    st.tuples(st.sampled_from("abc"), st.none()),
    st.tuples(st.sampled_from(NAMES), ADDRESSES),
    st.tuples(st.sampled_from(NAMES), st.none()),
    st.just(("ask", None)),
)


@given(steps=st.lists(STEPS, max_size=60))
def test_what_is_kept_in_step_is_what_a_new_search_finds(
    steps: list[tuple[str, list[str] | IPAddress | None]],
) -> None:
    """In whichever order ranges and addresses come and go, asked at any time or never (F-45)."""
    ranges, addresses = Ranges(), Addresses()
    keepers = Keepers(ranges, addresses)
    for name, state in [*steps, ("ask", None)]:
        if name == "ask":
            for each in "abc":
                new = Keepers(ranges, addresses)
                assert (keepers.first(each) is None) == (new.first(each) is None)
                kept = keepers.first(each)
                assert kept is None or kept in set(new._known[each])
        elif name in "abc":
            if isinstance(state, list):
                ranges.put(name, state)
            else:
                ranges.remove(name)
                keepers.forget(name)
            keepers.ranges_changed()
        else:
            before = addresses.remove(name)
            after = addresses.put(name, state) if isinstance(state, IPAddress) else None
            if before is not None:
                keepers.went(name, before)
            if after is not None:
                keepers.came(name, after)


def asked_by_one_event(addresses: int) -> int:
    """Return how often ranges are searched for one address beside so many that two ranges share."""
    memory = Memory()
    memory._ranges = ranges = CountingRanges()
    memory._keepers = Keepers(ranges, memory.addresses)
    ranges.put("small", ["10.0.0.0/17"])
    ranges.put("large", ["10.0.0.0/16"])
    for number in range(addresses):
        memory.put_address(f"10.0.{number // 250}.{number % 250 + 1}", ip())
    assert memory.keeper("large") is None
    ranges.asked = 0
    memory.put_address("10.0.127.1", ip())
    assert memory.keeper("large") is None
    return ranges.asked


def test_an_event_of_a_shared_address_costs_its_own_share() -> None:
    """As many searches with 20,000 addresses as with 100 (F-45)."""
    assert asked_by_one_event(100) == asked_by_one_event(20_000)
