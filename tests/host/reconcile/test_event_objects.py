"""What an Event says, under which name, and what a repetition changes of it."""

from uuid import UUID

import orjson
import pytest
from host.reconcile.event_occurrences import AT, SECOND, occurrence

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import EVENT
from kcm_host.reconcile.event_correlator import Event, event_name, first_event

ADDRESS = Kind(group="networking.k8s.io", version="v1", name="IPAddress", resource="ipaddresses")


def test_the_body_of_a_new_event() -> None:
    """Object, words, times, count and who says it, in the namespace `default` (IQ-121)."""
    write = first_event(occurrence()).create()
    name = f"n1.{AT:x}"
    assert (write.kind, write.verb, write.key) == (EVENT, "create", Key(name, "default"))
    assert orjson.loads(write.body) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "n1",
            "uid": "u-1",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "Full",
        "message": "no space left",
        "firstTimestamp": "2026-11-21T07:50:01Z",
        "lastTimestamp": "2026-11-21T07:50:01Z",
        "count": 1,
        "source": {"component": "acme-controller"},
        "reportingComponent": "acme-controller",
        "reportingInstance": "",
    }


def test_an_event_is_kept_in_the_namespace_of_its_object() -> None:
    """An Event about something in a namespace stands there, and names group and namespace."""
    said = occurrence(kind=ADDRESS, key=Key("a", "shop"), warning=False)
    write = first_event(said).create()
    body = orjson.loads(write.body)
    assert write.key.namespace == body["metadata"]["namespace"] == "shop"
    assert body["involvedObject"]["namespace"] == "shop"
    assert body["involvedObject"]["apiVersion"] == "networking.k8s.io/v1"
    assert body["type"] == "Normal"


def test_a_repetition_patches_count_time_and_words_alone() -> None:
    """What is said again changes nothing but count, lastTimestamp and message (IQ-124)."""
    again = Event(occurrence("worse", at=AT + 60 * SECOND), "n1.abc", 3, AT)
    write = again.update()
    assert (write.verb, write.key) == ("patch", Key("n1.abc", "default"))
    assert write.content_type == "application/strategic-merge-patch+json"
    assert orjson.loads(write.body) == {
        "count": 3,
        "lastTimestamp": "2026-11-21T07:51:01Z",
        "message": "worse",
    }
    assert orjson.loads(again.create().body)["firstTimestamp"] == "2026-11-21T07:50:01Z"


@pytest.mark.parametrize("name", ["n1", "a.b-c.d", "0"])
def test_the_name_is_that_of_the_object_and_the_time(name: str) -> None:
    """Nanoseconds since the epoch in hex stand behind the name (IQ-121)."""
    assert event_name(name, 0x1234ABCD) == f"{name}.1234abcd"


@pytest.mark.parametrize(
    "name", ["system:node", "Upper", "under_score", "ends-", "a..b", "a\n", "ä", "x" * 253]
)
def test_a_name_that_no_event_can_have(name: str) -> None:
    """Where that is no DNS subdomain the Event is called by a UUID (IQ-121)."""
    made = event_name(name, AT)
    assert str(UUID(made)) == made
    assert event_name(name, AT + 1) != made
