"""Every metric is in the reference, and every metric of the reference is emitted."""

import re

from pages import read, table

from kcm_host.api.kinds import Key
from kcm_host.api.sync import SyncRecord, WriteRecord
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.prometheus import render
from kcm_host.observe.states import ControllerState, HostState, RequestRecord, StreamState

PART = read("docs/operations.md").partition("## Metrics")[2].partition("## ")[0]
ROWS = {cells[0].strip("`"): cells[1] for cells in table(PART)}


def scraped() -> dict[str, set[str]]:
    """Return the metrics of a host that has done something of everything, with their labels."""
    metrics = Metrics()
    metrics.on_request(RequestRecord(method="GET", verb="list", host="h", status=200, seconds=0.1))
    write = WriteRecord(verb="patch", kind="nodes", object="n", status=200, seconds=0.1)
    metrics.on_write("ttl", write)
    metrics.on_sync(
        SyncRecord(
            controller="ttl",
            key=Key("n"),
            outcome="done",
            attempt=1,
            queued_seconds=0.1,
            seconds=0.1,
            causes=(),
            merged=1,
            writes=(write,),
            reads=1,
        )
    )
    stream = StreamState(
        "", "v1", "nodes", "", "", "", True, "watching", True, 1, "7", 1, (), 0, ("ttl",)
    )
    controller = ControllerState("ttl", "running", ready=True)
    text = render(metrics, HostState("1", "s", 1.0, True, (controller,), (stream,))).decode()
    found = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        suffix = "_bucket" if kind == "histogram" else ""
        series = re.search(rf"^{name}{suffix}(?:{{(.*)}})? ", text, re.MULTILINE)
        assert series, f"{name} has no series"
        labels = re.findall(r'(\w+)="', series[1] or "")
        found[name] = set(labels) - {"le"}
    return found


def test_every_metric_is_documented() -> None:
    """Names on the page and in a scrape are the same; those of the process count as one."""
    names = {re.sub("^process_.*", "process_*", name) for name in scraped()}
    assert ROWS.keys() == names | {"process_*"}


def test_labels_are_documented() -> None:
    """The labels of each metric are those of the page."""
    before: set[str] = set()
    for name, cell in ROWS.items():
        labels = before if cell == "the same" else set(re.findall(r"`(\w+)`", cell))
        before = labels
        if name != "process_*":
            assert scraped()[name] == labels, name
