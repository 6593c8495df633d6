"""Random changes played to the harness: the controller ends where a plain function ends."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_host_testing.harness import ControllerHarness
from kcm_host_ttl.boundaries import parse_seconds
from kcm_host_ttl.plugin import ANNOTATION, NODE, Ttl

#: Nodes are put in groups, so that few changes lead over the first two steps of the table.
GROUP = 30
GROUPS = 6
TEXTS = (None, "0", "15", "30", "007", "no number")

groups = st.integers(0, GROUPS - 1)
changes = st.one_of(
    st.tuples(st.just("put"), groups, st.sampled_from(TEXTS)),
    st.tuples(st.just("delete"), groups, st.none()),
    st.tuples(st.just("annotate"), groups, st.sampled_from(TEXTS)),
    st.tuples(st.just("run"), groups, st.none()),
    st.tuples(st.just("disconnect"), groups, st.none()),
    st.tuples(st.just("lose"), groups, st.none()),
)


def names(group: int) -> list[str]:
    """Return the names of the nodes of a group."""
    return [f"n{group}-{number}" for number in range(GROUP)]


def node(name: str, text: str | None) -> dict[str, Any]:
    """Return a node with this annotation."""
    annotations = {} if text is None else {ANNOTATION: text}
    return {"metadata": {"name": name, "annotations": annotations}}


def play(harness: ControllerHarness, change: str, group: int, text: str | None) -> None:
    """Make one random change."""
    known = harness.objects(NODE)
    match change:
        case "put":
            for name in names(group):
                harness.put(NODE, node(name, text))
        case "delete":
            for name in known.keys() & set(names(group)):
                harness.delete(NODE, name)
        case "annotate" if known:
            name = sorted(known)[group * len(known) // GROUPS]
            harness.patch(NODE, name, {"metadata": {"annotations": {ANNOTATION: text}}})
        case "run":
            harness.run_until_idle(attempts=20)
        case "disconnect":
            with harness.disconnected():
                play(harness, "delete", group, None)
                play(harness, "put", (group + 1) % GROUPS, "15")
        case "lose":
            harness.answer("Unreachable", done=bool(group % 2))


@settings(max_examples=40)
@given(st.lists(changes, max_size=12))
def test_all_annotations_end_at_the_value_for_the_number_of_nodes(
    story: list[tuple[str, int, str | None]],
) -> None:
    """Whatever happened: hysteresis aside, each node has the value of the table in the end."""
    harness = ControllerHarness(Ttl())
    harness.start()
    for change in story:
        play(harness, *change)
    harness.run_until_idle(attempts=20)
    nodes = harness.objects(NODE)
    allowed = {0: {0}, 1: {0, 15}, 2: {15}}[(len(nodes) > 90) + (len(nodes) > 100)]
    values = {parse_seconds(each["metadata"]["annotations"][ANNOTATION]) for each in nodes.values()}
    assert len(values) <= 1
    assert values <= allowed
    assert harness.missed_wakeups() == []
