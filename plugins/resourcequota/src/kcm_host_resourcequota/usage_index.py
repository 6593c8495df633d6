"""Running totals of what the objects of every namespace use, kept up by each object's change."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kcm_host.api import Key, Undecodable, View
from kcm_host_resourcequota.evaluators.base import Contribution, Evaluator, Usage
from kcm_host_resourcequota.expirations import Deadlines
from kcm_host_resourcequota.quantity import Format
from kcm_host_resourcequota.scopes import Vector


class Difference(msgspec.Struct, frozen=True, gc=False):
    """What one object added before and adds now; None: nothing (RQ-B5)."""

    old: Contribution | None
    new: Contribution | None

    def seen(self, counts: Callable[[Vector], bool]) -> Mapping[str, int]:
        """
        Give by how many nano units each name changes for whoever counts only some vectors.

        An object that enters or leaves such a selection comes or goes with all it uses (RQ-B10).
        """
        old = self.old.usage if self.old is not None and counts(self.old.vector) else ()
        new = self.new.usage if self.new is not None and counts(self.new.vector) else ()
        return _steps(old, new)


@lru_cache(maxsize=4096)
def _steps(old: Usage, new: Usage) -> Mapping[str, int]:
    steps = {name: nano for name, nano, _ in new}
    for name, nano, _ in old:
        steps[name] = steps.get(name, 0) - nano
    return {name: step for name, step in steps.items() if step}


class Total(msgspec.Struct):
    """
    The exact sum of one name over some objects.

    `formats` counts in which formats it was added, by those that did not add zero (RQ-B26).
    """

    nano: int = 0
    objects: int = 0
    formats: dict[Format, int] = {}

    def add(self, nano: int, form: Format, *, times: int = 1) -> None:
        """Add an amount for so many objects; a negative number of them takes it away."""
        self.nano += nano * times
        self.objects += times
        if nano:
            self._count(form, times)

    def include(self, other: "Total") -> None:
        """Add another total."""
        self.nano += other.nano
        self.objects += other.objects
        for form, times in other.formats.items():
            self._count(form, times)

    def _count(self, form: Format, times: int) -> None:
        left = self.formats.get(form, 0) + times
        if left:
            self.formats[form] = left
        else:
            del self.formats[form]


class Group(msgspec.Struct):
    """The totals of the objects of one namespace and resource that share a vector (RQ-B3)."""

    objects: int = 0
    totals: dict[str, Total] = {}

    def add(self, usage: Usage, times: int) -> None:
        """Add what so many objects use, or take it away again."""
        self.objects += times
        for name, nano, form in usage:
            total = self.totals.get(name)
            if total is None:
                total = self.totals[name] = Total()
            total.add(nano, form, times=times)
            if not total.objects:
                del self.totals[name]


class Account:
    """
    What the objects of one resource use in one namespace.

    A record is the contribution as it was added, so that exactly that is subtracted later,
    whatever the object would give by then (RQ-B4, RQ-B24).
    """

    __slots__ = ("groups", "records")

    def __init__(self) -> None:
        self.records: dict[str, Contribution] = {}
        self.groups: dict[Vector, Group] = {}

    def put(self, name: str, new: Contribution | None) -> Difference | None:
        """Take the present contribution of an object, None for none; None if nothing changed."""
        old = self.records.get(name)
        if old is new or old == new:
            return None
        if old is not None:
            self._subtract(old)
        if new is None:
            del self.records[name]
        else:
            self.records[name] = new
            self._group(new.vector).add(new.usage, 1)
        return Difference(old, new)

    def correct(self, name: str, new: Contribution | None) -> None:
        """Replace a record that was wrong, and add up all of them anew (RQ-B41)."""
        self.records.pop(name, None)
        if new is not None:
            self.records[name] = new
        self.groups = self.recounted()

    def recounted(self) -> dict[Vector, Group]:
        """Give the groups as the records alone would have them (RQ-B40)."""
        # Equal contributions are one object nearly always, and its identity costs no hashing.
        times = Counter(map(id, self.records.values()))
        groups: dict[Vector, Group] = {}
        for contribution in {id(each): each for each in self.records.values()}.values():
            group = groups.setdefault(contribution.vector, Group())
            group.add(contribution.usage, times[id(contribution)])
        return groups

    def _group(self, vector: Vector) -> Group:
        group = self.groups.get(vector)
        if group is None:
            group = self.groups[vector] = Group()
        return group

    def _subtract(self, old: Contribution) -> None:
        group = self._group(old.vector)
        group.add(old.usage, -1)
        if group.objects <= 0:
            del self.groups[old.vector]


class Ledger:
    """
    The accounts of all namespaces: who reads totals never looks at an object (RQ-B7).

    Resources are named as evaluators name them. Everything happens on one thread, so a reader
    always sees whole changes (RQ-B8).
    """

    def __init__(self) -> None:
        self._accounts: dict[str, dict[str, Account]] = {}
        #: How many records each resource has.
        self._objects: Counter[str] = Counter()

    def apply(self, resource: str, key: Key, new: Contribution | None) -> Difference | None:
        """
        Make an object's record what it contributes now, None once it is gone.

        Gives the difference to before, None if there is none; repeating it changes nothing.
        """
        accounts = self._accounts.setdefault(resource, {})
        account = accounts.get(key.namespace)
        if account is None:
            if new is None:
                return None
            account = accounts[key.namespace] = Account()
        before = len(account.records)
        difference = account.put(key.name, new)
        self._objects[resource] += len(account.records) - before
        if not account.records:
            del accounts[key.namespace]
        return difference

    def correct(self, resource: str, key: Key, new: Contribution | None) -> None:
        """Replace a record that was wrong; its totals are added up anew (RQ-B41)."""
        account = self.account(resource, key.namespace)
        if account is None:
            self.apply(resource, key, new)
            return
        before = len(account.records)
        account.correct(key.name, new)
        self._objects[resource] += len(account.records) - before
        if not account.records:
            del self._accounts[resource][key.namespace]

    def add_up(
        self,
        resource: str,
        namespace: str,
        *,
        counts: Callable[[Vector], bool],
        into: dict[str, int],
    ) -> None:
        """Add the totals over the vectors that count to the names of `into`, in nano units."""
        for group in self._groups(resource, namespace, counts):
            totals = group.totals
            for name in into:
                total = totals.get(name)
                if total is not None:
                    into[name] += total.nano

    def total(
        self, resource: str, namespace: str, *, counts: Callable[[Vector], bool], name: str
    ) -> Total:
        """Give the total of one name over the vectors that count, with its formats."""
        found = Total()
        for group in self._groups(resource, namespace, counts):
            if name in group.totals:
                found.include(group.totals[name])
        return found

    def _groups(
        self, resource: str, namespace: str, counts: Callable[[Vector], bool]
    ) -> Iterator[Group]:
        account = self.account(resource, namespace)
        for vector, group in account.groups.items() if account is not None else ():
            if counts(vector):
                yield group

    def account(self, resource: str, namespace: str) -> Account | None:
        """Give the account of one resource in one namespace, None if nothing is recorded there."""
        return self._accounts.get(resource, {}).get(namespace)

    def record(self, resource: str, key: Key) -> Contribution | None:
        """Give what an object was last recorded with."""
        account = self.account(resource, key.namespace)
        return account.records.get(key.name) if account else None

    def keys(self, resource: str) -> Iterator[Key]:
        """Give the keys of all recorded objects of a resource; they may change meanwhile."""
        for namespace in self.namespaces(resource):
            account = self.account(resource, namespace)
            for name in list(account.records) if account is not None else ():
                yield Key(name, namespace)

    def objects(self, resource: str) -> int:
        """How many objects of a resource are recorded."""
        return self._objects[resource]

    def namespaces(self, resource: str) -> tuple[str, ...]:
        """The namespaces in which objects of a resource are recorded."""
        return tuple(self._accounts.get(resource, {}))

    def accounts(self, resource: str) -> int:
        """How many namespaces have records of a resource."""
        return len(self._accounts.get(resource, {}))

    def forget(self, resource: str) -> None:
        """Drop all records and totals of a resource."""
        self._accounts.pop(resource, None)
        del self._objects[resource]


class Move(msgspec.Struct, frozen=True, gc=False):
    """One object's change in the ledger."""

    resource: str
    key: Key
    difference: Difference


class Books:
    """
    The ledger and the deadlines of all objects.

    Everything is driven by keys and reads the store as it is now, so that repeated, merged and
    missing events give the same result (RQ-B6). `clock` gives Unix seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.ledger = Ledger()
        self.deadlines = Deadlines(now=clock())
        #: How often an object's contribution was worked out (RQ-B44).
        self.evaluations = 0
        self._clock = clock

    def apply(self, evaluator: Evaluator, key: Key, view: View) -> Move | None:
        """Bring the record of one object up to date; None if nothing changed (RQ-B5)."""
        seen = self.stored(evaluator, key, view)
        instant = evaluator.deadline(seen) if seen is not None else None
        self.deadlines.put(evaluator.resource, key, instant)
        now = self._contribution(evaluator, key, seen, view)
        difference = self.ledger.apply(evaluator.resource, key, now)
        return Move(evaluator.resource, key, difference) if difference is not None else None

    def crossed(self) -> Sequence[tuple[str, Key]]:
        """Give resource and key of the objects to apply because the clock has moved (RQ-B21)."""
        return self.deadlines.crossed(now=self._clock())

    def contribution(self, evaluator: Evaluator, key: Key, view: View) -> Contribution | None:
        """Give what the object of a key uses now, None if there is none (RQ-B1)."""
        return self._contribution(evaluator, key, self.stored(evaluator, key, view), view)

    @staticmethod
    def stored(evaluator: Evaluator, key: Key, view: View) -> Any:
        """Give the object of a key as it is now, None if there is none that could be decoded."""
        try:
            return view.of(evaluator.kind, evaluator.model).get(key.name, key.namespace)
        except Undecodable:
            return None

    def strays(self, evaluator: Evaluator, view: View) -> Iterator[Key | None]:
        """Give the keys that only one of ledger and store has, None for each that is none."""
        resource = evaluator.resource
        for key in self.ledger.keys(resource):
            yield key if self.stored(evaluator, key, view) is None else None
        stored = view.of(evaluator.kind, evaluator.model).items()
        for key, _ in stored:
            yield key if self.ledger.record(resource, key) is None else None

    def forget(self, resource: str) -> None:
        """Drop everything about a resource that is no longer followed."""
        self.ledger.forget(resource)
        self.deadlines.forget(resource)

    def _contribution(
        self, evaluator: Evaluator, key: Key, seen: object, view: View
    ) -> Contribution | None:
        if seen is None:
            return None
        self.evaluations += 1
        return evaluator.contribution(key, seen, view, self._clock())
