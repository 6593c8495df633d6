"""An object that does not fit the model is kept and named, and never taken for a delete."""

import logging
from typing import Any

import msgspec
import pytest
from host.informer.stream_lines import (
    POD,
    A,
    B,
    C,
    D,
    Phase,
    Pod,
    RecordingHandler,
    Touchy,
    event,
    paged_list,
    pod,
    streaming_list,
)
from logged import pairs_of

from kcm_host.api.watch import Change
from kcm_host.informer.shared_informer import SharedInformer


def test_it_is_told_once_for_each_version(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """Watch and relists of one version are one warning that names the object and the field."""
    informer.add_event_handler(Pod, RecordingHandler())
    streaming_list(informer, ("ADDED", pod(A, "1", node=["no", "string"])))
    event(informer, "MODIFIED", pod(A, "2", node=2))
    paged_list(informer, pod(A, "2", node=2))
    streaming_list(informer, ("ADDED", pod(A, "2", node=2)))
    paged_list(informer, pod(A, "3", node=2))
    (message,) = {record.getMessage() for record in caplog.records}
    assert message == "undecodable object, last decoded state kept"
    told = [pairs_of(record) for record in caplog.records]
    assert [pairs["version"] for pairs in told] == ["1", "2", "3"]
    assert told[1] == {
        "kind": "pods",
        "key": "team/a",
        "version": "2",
        "model": "Pod",
        "error": "Expected `str`, got `int` - at `$.object.node`",
        "remedy": "correct the object; if it is right, correct the model of the controller",
    }


class Wordy(msgspec.Struct):
    """A model whose own code raises a long error."""

    def __post_init__(self) -> None:
        raise ValueError("x" * 10_000)


def test_the_error_in_the_log_is_bounded(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """The code of a model may quote the object, and there may be many objects (F-69)."""
    informer.add_event_handler(Wordy, RecordingHandler())
    paged_list(informer, pod(A, "1"))
    (record,) = caplog.records
    assert pairs_of(record)["model"] == "Wordy"
    assert pairs_of(record)["error"] == "x" * 400


def test_its_end_is_no_further_trouble(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """The DELETED event of an object that does not fit is a delete and asks nobody to mend it."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    streaming_list(informer, ("ADDED", pod(A, "1", node="n1")))
    caplog.clear()
    event(informer, "DELETED", pod(A, "2", node=2))
    assert handler.changes[-1] == Change(
        kind=POD, key=A, old=Pod("n1"), new=None, resource_version="2"
    )
    assert caplog.records == []


def test_it_misfits_one_model_only(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """Readers of other fields get the object as it is now."""
    bad, fine = RecordingHandler(), RecordingHandler()
    informer.add_event_handler(Pod, bad)
    informer.add_event_handler(Phase, fine)
    streaming_list(informer, ("ADDED", pod(A, "1", node="n1", phase="Pending")))
    event(informer, "MODIFIED", pod(A, "2", node=2, phase="Running"))
    assert informer.typed_informer(Phase).store.get(A) == Phase("Running")
    assert informer.typed_informer(Pod).store.get(A) == Pod("n1")
    assert (fine.told(), bad.told()) == ([("added", "a"), ("updated", "a")], [("added", "a")])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_model_whose_own_code_raises_is_a_misfit(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture
) -> None:
    """Exceptions of plugin code are kept from the stream and its other readers, also at the end."""
    touchy, fine = RecordingHandler(), RecordingHandler()
    informer.add_event_handler(Touchy, touchy)
    informer.add_event_handler(Pod, fine)
    streaming_list(informer, ("ADDED", pod(A, "1", node="n1")))
    event(informer, "MODIFIED", pod(A, "2", node="broken"))
    assert informer.typed_informer(Touchy).store.undecodable == {A}
    event(informer, "DELETED", pod(A, "3", node="broken"))
    assert touchy.told() == [("added", "a"), ("deleted", "a")]
    assert fine.told() == [("added", "a"), ("updated", "a"), ("deleted", "a")]
    assert [pairs_of(record)["version"] for record in caplog.records] == ["2"]


class Deep(msgspec.Struct, frozen=True, gc=False):
    """A model that reads a field of any shape."""

    tree: Any = None


@pytest.mark.parametrize("kept_whole", [False, True])
def test_one_nested_too_deep_keeps_nothing_back(
    informer: SharedInformer, caplog: pytest.LogCaptureFixture, *, kept_whole: bool
) -> None:
    """In lists and as an event it is undecodable, and a delete ends it (F-1)."""
    handler = RecordingHandler()
    informer.add_event_handler(Pod, handler)
    informer.typed_informer(Pod).store.keep_full_objects = kept_whole
    tree = msgspec.Raw(b"[" * 20_000 + b"]" * 20_000)
    streaming_list(informer, ("ADDED", pod(A, "1", tree=tree)), ("ADDED", pod(B, "1")))
    paged_list(informer, pod(A, "2", tree=tree), pod(B, "2"), pod(C, "2"))
    event(informer, "MODIFIED", pod(A, "3", tree=tree))
    event(informer, "ADDED", pod(D, "4"))
    assert informer.typed_informer(Pod).store.undecodable == {A}
    assert handler.told() == [("added", "b"), ("added", "c"), ("added", "d")]
    assert handler.synced_after == [1], "a list with one is complete"
    assert [pairs_of(record)["version"] for record in caplog.records] == ["1", "2", "3"]
    event(informer, "DELETED", pod(A, "5", tree=tree))
    assert len(informer.typed_informer(Pod).store) == 3


def test_deep_objects_that_can_just_be_decoded_are_compared(informer: SharedInformer) -> None:
    """Whatever the depth at which comparing gives up, the stream goes on (F-1)."""
    handler = RecordingHandler()
    informer.add_event_handler(Deep, handler)
    streaming_list(informer)
    for levels in range(0, 1_000, 7):
        for version in ("1", "2"):
            tree = msgspec.Raw(b'{"a":' * levels + b"1" + b"}" * levels)
            event(informer, "MODIFIED", pod(A, f"{levels}.{version}", tree=tree))
    event(informer, "ADDED", pod(B, "3"))
    assert handler.told()[-1] == ("added", "b")


class Stubborn(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A model that cannot be compared."""

    node: str = ""

    def __eq__(self, other: object) -> bool:
        raise RecursionError

    __hash__ = None  # type: ignore[assignment]  # nobody asks for it


def test_what_cannot_be_compared_has_changed(informer: SharedInformer) -> None:
    """A change too many costs a look, one too few is never made good (F-1)."""
    handler = RecordingHandler()
    informer.add_event_handler(Stubborn, handler)
    streaming_list(informer, ("ADDED", pod(A, "1", node="n1")))
    event(informer, "MODIFIED", pod(A, "2", node="n2"))
    paged_list(informer, pod(A, "3", node="n3"))
    assert handler.told() == [("added", "a"), ("updated", "a"), ("updated", "a")]
