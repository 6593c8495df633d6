"""The addresses that block a ServiceCIDR, updated without a search through all addresses."""

from hypothesis import given
from hypothesis import strategies as st

from kcm_host_servicecidrs.indexes import AddressIndex, CidrIndex
from kcm_host_servicecidrs.models import ALLOCATOR, AddressMetadata, IPAddress, Labels
from kcm_host_servicecidrs.prefixes import Address
from kcm_host_servicecidrs.state import BlockingAddresses, State

CIDRS = ("10.0.0.0/28", "10.0.0.0/29", "10.0.0.8/29", "10.0.0.0/24", "2001:db8::/124")
NAMES = (*(f"10.0.0.{number}" for number in range(20)), "2001:db8::1", "2001:db8::2")


class CountingIndex(CidrIndex):
    """A CidrIndex that counts the searches for an address."""

    searches = 0

    def containing_address(self, address: Address) -> list[str]:
        """See `CidrIndex.containing_address`."""
        self.searches += 1
        return super().containing_address(address)


def ip(family: str | None = "IPv4", manager: str = ALLOCATOR) -> IPAddress:
    """Return an IPAddress."""
    return IPAddress(AddressMetadata(Labels(managed_by=manager, family=family)))


ADDRESSES = st.builds(
    ip, st.sampled_from(("IPv4", "IPv6", None)), st.sampled_from((ALLOCATOR, ALLOCATOR, "other"))
)
STEPS = st.one_of(
    st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from(CIDRS), max_size=2)),
    st.tuples(st.sampled_from("abc"), st.none()),
    st.tuples(st.sampled_from(NAMES), ADDRESSES),
    st.tuples(st.sampled_from(NAMES), st.none()),
    st.just(("search", None)),
)


@given(steps=st.lists(STEPS, max_size=60))
def test_updates_find_what_a_new_search_finds(
    steps: list[tuple[str, list[str] | IPAddress | None]],
) -> None:
    """In any order of created and deleted ranges and addresses, searched at any time (F-45)."""
    ranges, addresses = CidrIndex(), AddressIndex()
    blocking = BlockingAddresses(ranges, addresses)
    for name, state in [*steps, ("search", None)]:
        if name == "search":
            for each in "abc":
                new = BlockingAddresses(ranges, addresses)
                assert (blocking.first(each) is None) == (new.first(each) is None)
                found = blocking.first(each)
                assert found is None or found in set(new._blocking[each])
        elif name in "abc":
            if isinstance(state, list):
                ranges.put(name, state)
            else:
                ranges.remove(name)
                blocking.discard_cidr(name)
            blocking.clear()
        else:
            before = addresses.remove(name)
            after = addresses.put(name, state) if isinstance(state, IPAddress) else None
            if before is not None:
                blocking.remove(name, before)
            if after is not None:
                blocking.add(name, after)


def searches_for_one_event(addresses: int) -> int:
    """Return the searches for one event beside so many addresses that two ranges contain."""
    state = State()
    state._cidrs = ranges = CountingIndex()
    state._blocking = BlockingAddresses(ranges, state.addresses)
    ranges.put("small", ["10.0.0.0/17"])
    ranges.put("large", ["10.0.0.0/16"])
    for number in range(addresses):
        state.update_address(f"10.0.{number // 250}.{number % 250 + 1}", ip())
    assert state.blocking_address("large") is None
    ranges.searches = 0
    state.update_address("10.0.127.1", ip())
    assert state.blocking_address("large") is None
    return ranges.searches


def test_the_cost_of_an_event_does_not_depend_on_the_addresses() -> None:
    """As many searches with 20,000 addresses as with 100 (F-45)."""
    assert searches_for_one_event(100) == searches_for_one_event(20_000)
