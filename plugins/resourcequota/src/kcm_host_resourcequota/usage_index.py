"""The usage index: running totals of what the objects of every namespace use."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from kcm_host.api import Key, QuantityFormat
from kcm_host_resourcequota.evaluators.base import Contribution, Usage
from kcm_host_resourcequota.scopes import ScopeAttributes, ScopeFilter


class ContributionChange(msgspec.Struct, frozen=True, gc=False):
    """The old and the new contribution of one object; None is no contribution (RQ-B5)."""

    old: Contribution | None
    new: Contribution | None

    def by_name(self, selects: ScopeFilter) -> Mapping[str, int]:
        """
        Return the change in nano units by name, for the objects that a scope filter selects.

        An object that enters or leaves the scopes is added or subtracted with all it uses (RQ-B10).
        """
        old = self.old.usage if self.old is not None and selects(self.old.attributes) else ()
        new = self.new.usage if self.new is not None and selects(self.new.attributes) else ()
        return _delta_by_name(old, new)


@lru_cache(maxsize=4096)
def _delta_by_name(old: Usage, new: Usage) -> Mapping[str, int]:
    deltas = {name: nano for name, nano, _ in new}
    for name, nano, _ in old:
        deltas[name] = deltas.get(name, 0) - nano
    return {name: delta for name, delta in deltas.items() if delta}


class Total(msgspec.Struct):
    """
    The exact sum of one name over some objects.

    `formats` counts the formats of the amounts that are not zero (RQ-B26).
    """

    nano: int = 0
    objects: int = 0
    formats: dict[QuantityFormat, int] = {}

    def add(self, nano: int, form: QuantityFormat, *, times: int) -> None:
        """Add the amount of a number of objects; a negative number subtracts it."""
        self.nano += nano * times
        self.objects += times
        if not nano:
            return
        remaining = self.formats.get(form, 0) + times
        if remaining:
            self.formats[form] = remaining
        else:
            del self.formats[form]


class ScopeGroup(msgspec.Struct):
    """The totals of objects of one namespace and resource with equal scope attributes (RQ-B3)."""

    objects: int = 0
    totals: dict[str, Total] = {}

    def add(self, usage: Usage, times: int) -> None:
        """Add the usage of a number of objects; a negative number subtracts it."""
        self.objects += times
        for name, nano, form in usage:
            total = self.totals.get(name)
            if total is None:
                total = self.totals[name] = Total()
            total.add(nano, form, times=times)
            if not total.objects:
                del self.totals[name]


class NamespaceUsage:
    """
    The usage of the objects of one resource in one namespace.

    A record is the contribution as it was added, so that exactly this is subtracted later, whatever
    the object would contribute by then (RQ-B4, RQ-B24).

    Changes are added to the totals when these are read next. Until then only their number is kept:
    the thousands of objects of a first list have a few contributions.
    """

    __slots__ = ("_changes", "_groups", "records")

    def __init__(self) -> None:
        self.records: dict[str, Contribution] = {}
        self._groups: dict[ScopeAttributes, ScopeGroup] = {}
        #: Identity of a contribution -> it, and how many times it is to be added. Equal
        #: contributions are one object nearly always, and its identity costs no hashing.
        self._changes: dict[int, tuple[Contribution, int]] = {}

    @property
    def groups(self) -> dict[ScopeAttributes, ScopeGroup]:
        """The totals by scope attributes."""
        if self._changes:
            self._add_changes()
        return self._groups

    @groups.setter
    def groups(self, groups: dict[ScopeAttributes, ScopeGroup]) -> None:
        self._changes.clear()
        self._groups = groups

    def put(self, name: str, new: Contribution | None) -> ContributionChange | None:
        """Set the contribution of an object, None for none; return None if nothing changed."""
        old = self.records.get(name)
        if old is new or old == new:
            return None
        if old is not None:
            self._record_change(old, -1)
        if new is None:
            del self.records[name]
        else:
            self.records[name] = new
            self._record_change(new, 1)
        return ContributionChange(old, new)

    def replace(self, name: str, new: Contribution | None) -> None:
        """Replace a wrong record, and compute the totals again from all records (RQ-B41)."""
        self.records.pop(name, None)
        if new is not None:
            self.records[name] = new
        self.groups = self.recompute()

    def recompute(self) -> dict[ScopeAttributes, ScopeGroup]:
        """Return the groups, computed from the records alone (RQ-B40)."""
        # Equal contributions are one object nearly always, and its identity costs no hashing.
        times = Counter(map(id, self.records.values()))
        groups: dict[ScopeAttributes, ScopeGroup] = {}
        for contribution in {id(each): each for each in self.records.values()}.values():
            group = groups.setdefault(contribution.attributes, ScopeGroup())
            group.add(contribution.usage, times[id(contribution)])
        return groups

    def _record_change(self, contribution: Contribution, times: int) -> None:
        _, present = self._changes.get(id(contribution), (contribution, 0))
        if present + times:
            self._changes[id(contribution)] = (contribution, present + times)
        else:
            del self._changes[id(contribution)]

    def _add_changes(self) -> None:
        for contribution, times in self._changes.values():
            group = self._groups.get(contribution.attributes)
            if group is None:
                group = self._groups[contribution.attributes] = ScopeGroup()
            group.add(contribution.usage, times)
            if not group.objects:
                del self._groups[contribution.attributes]
        self._changes.clear()


class UsageIndex:
    """
    The usage of all namespaces; totals are read without reading any object (RQ-B7).

    Resources have the names that evaluators use. Everything happens on one thread, so a reader
    always gets complete changes (RQ-B8).
    """

    def __init__(self) -> None:
        #: Resource -> namespace -> usage.
        self._usage: dict[str, dict[str, NamespaceUsage]] = {}
        #: Another number after each change of a record: as long as it is the same, all totals are.
        self.version = 0
        self._object_counts: Counter[str] = Counter()

    def apply(self, resource: str, key: Key, new: Contribution | None) -> ContributionChange | None:
        """
        Set the record of an object to its present contribution, None once it is deleted.

        Return the change, None if there is none; a repeated call changes nothing.
        """
        namespaces = self._usage.setdefault(resource, {})
        usage = namespaces.get(key.namespace)
        if usage is None:
            if new is None:
                return None
            usage = namespaces[key.namespace] = NamespaceUsage()
        before = len(usage.records)
        change = usage.put(key.name, new)
        self.version += change is not None
        self._object_counts[resource] += len(usage.records) - before
        if not usage.records:
            del namespaces[key.namespace]
        return change

    def replace(self, resource: str, key: Key, new: Contribution | None) -> None:
        """Replace a wrong record; the totals of its namespace are computed again (RQ-B41)."""
        usage = self.namespace_usage(resource, key.namespace)
        if usage is None:
            self.apply(resource, key, new)
            return
        before = len(usage.records)
        usage.replace(key.name, new)
        self.version += 1
        self._object_counts[resource] += len(usage.records) - before
        if not usage.records:
            del self._usage[resource][key.namespace]

    def replace_totals(
        self, resource: str, namespace: str, groups: dict[ScopeAttributes, ScopeGroup]
    ) -> None:
        """Replace wrong totals of a namespace (RQ-B41)."""
        self._usage[resource][namespace].groups = groups
        self.version += 1

    def add_totals(
        self, resource: str, namespace: str, *, selects: ScopeFilter, into: dict[str, int]
    ) -> None:
        """Add the totals of the selected objects, in nano units, to the names of `into`."""
        for group in self._groups(resource, namespace, selects):
            totals = group.totals
            for name in into:
                total = totals.get(name)
                if total is not None:
                    into[name] += total.nano

    def formats(
        self, resource: str, namespace: str, *, selects: ScopeFilter, name: str
    ) -> Mapping[QuantityFormat, int]:
        """Return how many amounts of one name the selected objects have in each format."""
        result = Counter[QuantityFormat]()
        for group in self._groups(resource, namespace, selects):
            if name in group.totals:
                result.update(group.totals[name].formats)
        return result

    def _groups(self, resource: str, namespace: str, selects: ScopeFilter) -> Iterator[ScopeGroup]:
        usage = self.namespace_usage(resource, namespace)
        for attributes, group in usage.groups.items() if usage is not None else ():
            if selects(attributes):
                yield group

    def namespace_usage(self, resource: str, namespace: str) -> NamespaceUsage | None:
        """Return the usage of one resource in one namespace, None if it has no record there."""
        return self._usage.get(resource, {}).get(namespace)

    def record(self, resource: str, key: Key) -> Contribution | None:
        """Return the recorded contribution of an object."""
        usage = self.namespace_usage(resource, key.namespace)
        return usage.records.get(key.name) if usage else None

    def keys(self, resource: str) -> Iterator[Key]:
        """Return the keys of all records of a resource; records may change during the iteration."""
        for namespace in self.namespaces(resource):
            usage = self.namespace_usage(resource, namespace)
            for name in list(usage.records) if usage is not None else ():
                yield Key(name, namespace)

    def object_count(self, resource: str) -> int:
        """Return the number of records of a resource."""
        return self._object_counts[resource]

    def namespaces(self, resource: str) -> tuple[str, ...]:
        """Return the namespaces that have records of a resource."""
        return tuple(self._usage.get(resource, {}))

    def namespace_count(self, resource: str) -> int:
        """Return the number of namespaces that have records of a resource."""
        return len(self._usage.get(resource, {}))

    def remove_resource(self, resource: str) -> None:
        """Remove all records and totals of a resource."""
        self._usage.pop(resource, None)
        self.version += 1
        del self._object_counts[resource]
