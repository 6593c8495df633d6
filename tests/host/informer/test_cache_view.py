"""A sync reads what its controller's watches declare, and nothing else."""

from collections.abc import Callable

import msgspec
import pytest
from host.informer.stream_lines import POD, ROLE, A, B, Phase, Pod, entry, undecodable_entry
from view_stores import stores_of

from kcm_host.api import Objects
from kcm_host.api.errors import UndeclaredRead, Undecodable
from kcm_host.api.kinds import Key, Kind
from kcm_host.informer.cache_view import CacheView, Stores, SyncView
from kcm_host.informer.store import Store


@pytest.fixture
def view(store: Store[Pod]) -> CacheView:
    """The view of a controller that follows pods, of which there is one."""
    store.put(A, entry("1", node="n1"))
    return CacheView("quota", stores_of("quota", {(POD, Pod): store}))


@pytest.fixture
def whole_view(store: Store[Pod]) -> CacheView:
    """The view of a controller that follows full pods, of which there is none."""
    store.keep_full_objects = True
    return CacheView("quota", stores_of("quota", {(POD, Pod): store}))


def test_objects_are_found_by_name_and_namespace(view: CacheView) -> None:
    """`get` gives the stored object, None for what is not there (IQ-58)."""
    pods = view.of(POD, Pod)
    assert pods.get("a", "team") == Pod("n1")
    assert pods.get("a") is None
    assert pods.get("b", "team") is None
    assert list(pods.items()) == [(A, Pod("n1"))]


def test_objects_without_a_namespace_are_found_by_name(
    whole_view: CacheView, store: Store[Pod]
) -> None:
    """`get` and `full_object` need no namespace for a kind that has none (IQ-58)."""
    store.put(Key("n"), entry("1", node="n1", whole=b"{}"))
    pods = whole_view.of(POD, Pod)
    assert pods.get("n") == Pod("n1")
    assert pods.full_object("n") == {}
    assert whole_view.reads == 2


def test_a_view_follows_its_store(view: CacheView, store: Store[Pod]) -> None:
    """What is stored later is seen through objects that were asked for earlier."""
    pods = view.of(POD, Pod)
    store.put(A, entry("2", node="n2"))
    assert pods.get("a", "team") == Pod("n2")


def test_an_undeclared_kind_is_refused(view: CacheView) -> None:
    """The message says who asked for what, and what to add where."""
    with pytest.raises(UndeclaredRead) as refusal:
        view.of(ROLE, Phase)
    assert str(refusal.value) == (
        "quota asked for 'clusterroles.rbac.authorization.k8s.io' as Phase, which none of its "
        "watches declare; add a Watch with that kind and model to kcm_watches"
    )


def test_a_declared_kind_in_another_model_is_refused(view: CacheView) -> None:
    """A watch declares a kind in one model; another model of it is another watch."""
    with pytest.raises(UndeclaredRead, match="quota asked for 'pods' as Phase"):
        view.of(POD, Phase)


def test_each_read_is_counted(view: CacheView, store: Store[Pod]) -> None:
    """Reads of every sort count, so that a sync can say how many it made."""
    store.add_index("quota", "node", lambda key, pod: [pod.node], lambda _key, _error: None)
    pods = view.of(POD, Pod)
    assert view.reads == 0
    pods.get("a", "team")
    pods.get("b", "team")
    list(pods.items())
    list(pods.by_index("node", "n1"))
    assert view.reads == 4


def test_undecodable_objects_are_named_and_counted(view: CacheView, store: Store[Pod]) -> None:
    """They are part of the number of objects; reading a bare one raises `Undecodable`."""
    store.put(B, undecodable_entry("1"))
    pods = view.of(POD, Pod)
    assert (len(pods), pods.undecodable()) == (2, frozenset({B}))
    with pytest.raises(Undecodable) as refusal:
        pods.get("b", "team")
    assert str(refusal.value) == (
        "pods 'team/b' exists, but cannot be decoded as Pod, and the log names the field; "
        "correct the object, or the model if the object is right"
    )


def test_undecodable_objects_are_named_by_namespace(view: CacheView, store: Store[Pod]) -> None:
    """Those of one namespace, of none, or all; an answer is not out of date at the next change."""
    other = Key("b", "other")
    pods = view.of(POD, Pod)
    for key in (B, other):
        store.put(key, undecodable_entry("1"))
    assert pods.undecodable() == {B, other}
    assert [pods.undecodable(name) for name in ("team", "other", "third")] == [{B}, {other}, set()]
    assert pods.undecodable("team") is pods.undecodable("team"), "asking again costs nothing"
    store.put(A, undecodable_entry("2"))
    assert pods.undecodable("team") == {A, B}
    assert pods.undecodable() == {A, B, other}
    store.put(A, entry("3"))
    store.delete(other)
    assert pods.undecodable("team") == {B}
    assert pods.undecodable("other") == set()
    assert pods.undecodable() == {B}


def test_a_sync_knows_the_uid_of_what_it_read(store: Store[Pod]) -> None:
    """By whatever read of one object; what it has not read is as the store has it now."""
    store.keep_full_objects = True
    store.add_index("quota", "node", lambda key, pod: [pod.node], lambda _key, _error: None)
    reads: dict[str, Callable[[Objects[Pod]], object]] = {
        "get": lambda pods: pods.get("a", "team"),
        "by_index": lambda pods: list(pods.by_index("node", "n1")),
        "whole": lambda pods: pods.full_object("a", "team"),
    }
    for read in reads.values():
        store.put(A, entry("1", uid="first", node="n1"))
        view = SyncView("quota", stores_of("quota", {(POD, Phase): Store(POD), (POD, Pod): store}))
        assert view.uid_read(POD, A) == "first"
        read(view.of(POD, Pod))
        store.put(A, entry("2", uid="second", node="n1"))
        assert view.uid_read(POD, A) == "first"
        assert view.uid_read(ROLE, A) == ""
        assert view.uid_read(POD, B) == ""
        list(view.of(POD, Pod).items())
        assert view.uid_read(POD, A) == "first", "a walk over all is no read of one"


def test_a_read_of_nothing_is_no_uid(store: Store[Pod]) -> None:
    """An object that came after the sync looked for it has the uid that it has now."""
    view = SyncView("quota", stores_of("quota", {(POD, Pod): store}))
    assert view.of(POD, Pod).get("a", "team") is None
    store.put(A, entry("1", uid="new"))
    assert view.uid_read(POD, A) == "new"


def test_whole_objects_are_kept_on_request(whole_view: CacheView, store: Store[Pod]) -> None:
    """Each call gives a dict of its own, of the version that the model was read from."""
    store.put(A, entry("1", whole=b'{"spec": {"x": 1}}'))
    pods = whole_view.of(POD, Pod)
    first = pods.full_object("a", "team")
    assert whole_view.reads == 1
    assert first == {"spec": msgspec.Raw(b'{"x": 1}')}
    first["spec"] = None
    assert pods.full_object("a", "team") == {"spec": msgspec.Raw(b'{"x": 1}')}
    assert pods.full_object("b", "team") is None


def test_an_undecodable_version_has_no_whole_object(
    whole_view: CacheView, store: Store[Pod]
) -> None:
    """Nothing is written from half-read data."""
    store.put(A, entry("1", whole=b"{}"))
    store.put(A, undecodable_entry("2"))
    assert whole_view.of(POD, Pod).full_object("a", "team") is None


@pytest.mark.parametrize("value", [b'"\xff"', rb'"\ud800"', b"[" * 9_999 + b"]" * 9_999, b"1e999"])
def test_a_whole_object_that_cannot_be_decoded_is_told(
    whole_view: CacheView, store: Store[Pod], value: bytes
) -> None:
    """Metadata the model does not declare may be what no decoder reads: one sort of error (F-1)."""
    store.put(A, entry("1", whole=b'{"metadata": {"other": %b}}' % value))
    with pytest.raises(Undecodable, match="pods 'team/a' holds fields that cannot be decoded"):
        whole_view.of(POD, Pod).full_object("a", "team")


def test_whole_objects_must_be_asked_for(view: CacheView) -> None:
    """The message says what to add to the watch."""
    with pytest.raises(UndeclaredRead) as refusal:
        view.of(POD, Pod).full_object("a", "team")
    assert str(refusal.value) == (
        "'pods' is kept without its full objects; write full_object=True in the watch that quota "
        "declares for it"
    )


@pytest.fixture
def two() -> CacheView:
    """The view of a controller with two watches of pods in one model, and one in another."""
    stores = Stores()
    for name, key in (("ours", A), ("theirs", B)):
        store: Store[Pod] = Store(POD)
        store.put(key, entry("1", node=name))
        store.add_index(name, "node", lambda key, pod: [pod.node], lambda _key, _error: None)
        stores.add(name, Pod, store, index_owner=name)
    stores.add("phases", Phase, Store(POD), index_owner="phases")
    return CacheView("quota", stores)


def test_watches_of_one_kind_and_model_are_read_by_their_names(two: CacheView) -> None:
    """Each has its objects and its indexes; a sole watch needs no name, and may be named."""
    assert dict(two.of(POD, Pod, "ours").items()) == {A: Pod("ours")}
    assert dict(two.of(POD, Pod, "theirs").by_index("node", "theirs")) == {B: Pod("theirs")}
    assert len(two.of(POD, Phase)) == len(two.of(POD, Phase, "phases")) == 0


@pytest.mark.parametrize(
    ("kind", "model", "name", "says"),
    [
        (POD, Pod, "", "which the watches 'ours' and 'theirs' follow; name one of them in View.of"),
        (POD, Pod, "phases", "of watch 'phases', which follows 'pods' as Phase"),
        (ROLE, Pod, "ours", "of watch 'ours', which follows 'pods' as Pod"),
        (POD, Pod, "x", "which it does not have; its watches: 'ours', 'theirs', 'phases'"),
        (ROLE, Pod, "", "which none of its watches declare"),
    ],
    ids=["ambiguous", "another model", "another kind", "unknown", "undeclared"],
)
def test_a_read_that_is_of_no_single_watch_is_refused(
    two: CacheView, kind: Kind, model: type[msgspec.Struct], name: str, says: str
) -> None:
    """The error lists the names that there are."""
    with pytest.raises(UndeclaredRead) as refusal:
        two.of(kind, model, name)
    assert says in str(refusal.value)


def test_a_watch_that_ends_makes_the_other_the_only_one() -> None:
    """Dynamic watches come and go; one that comes again is another store."""
    stores = Stores()
    view = CacheView("quota", stores)
    first, second = Store[Pod](POD), Store[Pod](POD)
    stores.add("ours", Pod, first, index_owner="ours")
    stores.add("theirs", Pod, second, index_owner="theirs")
    assert stores.of_kind(POD) == [first, second]
    stores.remove("ours")
    second.put(B, entry("1"))
    assert len(view.of(POD, Pod)) == 1
    stores.add("theirs", Phase, Store(POD), index_owner="theirs")
    assert len(view.of(POD, Phase)) == 0
    with pytest.raises(UndeclaredRead):
        view.of(POD, Pod)


def test_a_store_that_two_watches_share_is_one_of_its_kind(store: Store[Pod]) -> None:
    """A write is waited for in each store once."""
    stores = Stores()
    for name in ("ours", "theirs"):
        stores.add(name, Pod, store, index_owner=name)
    assert stores.of_kind(POD) == [store]
    assert stores.of_kind(ROLE) == []
