"""What an author may write by mistake: each line with the mark is an error of a type checker."""

from datetime import timedelta

from kcm_host.api import (
    Change,
    Condition,
    ControllerInfo,
    Done,
    EnqueueRequest,
    Key,
    Kind,
    Later,
    Metric,
    Model,
    Outcome,
    Permission,
    Quantity,
    Terminal,
    View,
    Watch,
    Writer,
)

POD = Kind(group="", version="v1", name="Pod", resource="pods")


class Pod(Model, frozen=True):
    """A model."""

    phase: str = ""


class Node(Model, frozen=True):
    """Another model."""

    name: str = ""


Kind("", "v1", "Pod", "pods")  # refused
Kind(group="", version="v1", name="Pod")  # refused
Permission(kind=POD, verb="apply")  # refused
Permission(kind="pods", verb="patch")  # refused
Metric(name="a", help="b", type="histogram", series=())  # refused
Condition(type="Ready", status="true")  # refused
Later(5)  # refused
Terminal()  # refused
EnqueueRequest("a")  # refused
EnqueueRequest(Key("a"), lane=1)  # refused
ControllerInfo(worker=3)  # refused
Watch(kind=POD, model=Pod, every_event=True)  # refused
Watch(kind=POD, model=Pod, rest=timedelta(seconds=1))  # refused
Watch(kind=POD)  # refused
SMALL = Quantity.parse("1") < 5  # refused


def _keys(change: Change[Node], view: View) -> list[Key]:
    return [change.key]


Watch(kind=POD, model=Pod, keys=_keys)  # refused
Watch(kind=POD, model=Pod, keys=lambda change: [change.key])  # refused


def _phase(change: Change[Pod]) -> str:
    return change.new.phase  # refused


def _reads(view: View) -> str:
    pod = view.of(POD, Pod).get("a")
    pod.phase = "Failed"  # refused
    found = view.of(POD, Pod).get("a", Key("b"))  # refused
    return found.phase if found is not None else ""


async def _writes(writer: Writer, key: Key) -> Outcome:
    await writer.patch(POD, key, {}, type="replace")  # refused
    await writer.patch("pods", key, {})  # refused
    await writer.apply(POD, key, {})  # refused
    await writer.delete(POD, key, version="1")  # refused
    response = await writer.patch(POD, key, {})
    assert response.version  # refused
    return None  # refused


async def _outcome() -> Outcome:
    return Done  # refused
