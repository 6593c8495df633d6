"""The metrics: claims are counted when they change, not at a scrape."""

import gc
import sys
from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from plugins.resourceclaim.claim_cluster import ClaimCluster
from plugins.resourceclaim.objects import claim

from kcm_host.api import Key
from kcm_host_resourceclaim.events_metrics import ClaimCounts
from kcm_host_resourceclaim.models.claim import Claim

EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}
STATES = st.none() | st.builds(
    claim,
    allocated=st.booleans(),
    admin=st.booleans(),
    entry=st.sampled_from(["", "res"]),
    annotations=st.sampled_from([None, EXTENDED]),
)


@given(st.lists(st.tuples(st.sampled_from("abc"), STATES)))
def test_counts_are_those_of_a_recount(story: Any) -> None:
    """F-40: whatever came, changed and went, in any order; what there is none of has no series."""
    counts, present = ClaimCounts(), {}
    for name, manifest in story:
        model = msgspec.convert(manifest, Claim) if manifest else None
        counts.update(Key(name, "ns"), model)
        present[name] = model
    expected = ClaimCounts()
    for name, model in present.items():
        expected.update(Key(name, "ns"), model)
    counted = {tuple(labels.values()): value for labels, value in counts.metric().series}
    assert counted == {tuple(labels.values()): value for labels, value in expected.metric().series}
    assert sum(counted.values()) == sum(model is not None for model in present.values())
    assert 0 not in counted.values()


def calls(cluster: ClaimCluster) -> int:
    """Return how many functions a scrape and a look at the status call, garbage collection none."""
    made: Counter[str] = Counter()
    gc.disable()
    sys.setprofile(lambda frame, event, arg: made.update([event]))
    try:
        cluster.metrics()
        cluster.status()
    finally:
        sys.setprofile(None)
        gc.enable()
    return made["call"] + made["c_call"]


def test_status_and_metrics_cost_the_same_for_any_number_of_claims() -> None:
    """F-40: nothing is walked."""
    few, many = (ClaimCluster(*(claim(f"c{i}") for i in range(count))) for count in (1, 500))
    assert calls(many) == calls(few)
    assert many.series("resource_claims") == {("false", "false", ""): 500}
