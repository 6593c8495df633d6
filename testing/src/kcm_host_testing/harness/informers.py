"""Informers in memory: they list and watch the objects of the harness, without a reflector."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kcm_host.api import AnyWatch, Key, Kind
from kcm_host.informer.decoder import decode_event
from kcm_host.informer.shared_informer import EventHandler, SharedInformer
from kcm_host.informer.store import Store
from kcm_host_testing.harness.objects import Objects
from kcm_host_testing.harness.patches import Object
from kcm_host_testing.harness.selectors import selection

_encode = msgspec.json.Encoder().encode
#: A change of an object: its kind, the object before and after it.
_Event = tuple[Kind, Object | None, Object | None]


class _Informer:
    """A shared informer and the objects that its watches select."""

    def __init__(self, watch: AnyWatch) -> None:
        self.shared = SharedInformer(watch.kind)
        self.options = _options(watch)
        self.is_started = False
        self.error = "it was not listed yet"
        self._matches = selection(watch.namespace, watch.label_selector, watch.field_selector)

    def list(self, objects: Iterable[Object]) -> None:
        """Replace the stored objects by a complete list."""
        self.shared.init()
        for body in filter(self._matches, objects):
            self.shared.init_apply_item(msgspec.Raw(_encode(body)))
        for _ in self.shared.init_done():
            pass
        self.error = ""

    def apply(self, before: Object | None, after: Object | None) -> None:
        """Deliver one change, if the object is or was selected."""
        was_selected = before is not None and self._matches(before)
        if after is not None and self._matches(after):
            self._deliver("MODIFIED" if was_selected else "ADDED", after)
        elif was_selected:
            self._deliver("DELETED", after or before)

    def _deliver(self, type_: str, body: Object | None) -> None:
        line = _encode({"type": type_, "object": body})
        self.shared.apply(type_, line, decode_event(line).object)


class Informers:
    """
    An `InformerFactory` over the objects of the harness.

    Changes are delivered by `deliver`, so that a sync never sees its own writes: on a server their
    events arrive after the response.
    """

    def __init__(self, serves: Callable[[Kind], bool]) -> None:
        self._serves = serves
        self._objects: Callable[[Kind], Iterable[Object]] = lambda _kind: ()
        self._informers: list[_Informer] = []
        self._by_handler: dict[EventHandler, _Informer] = {}
        self._events: list[_Event] = []
        #: Whether changes are lost until `relist`.
        self.is_disconnected = False

    def restart(self, objects: Objects) -> None:
        """Begin without informers."""
        self._objects = lambda kind: objects.of(kind).values()
        self._informers.clear()
        self._by_handler.clear()
        self._events.clear()

    def add_event_handler(
        self, _controller: str, watch: AnyWatch, handler: EventHandler, **_: Any
    ) -> Store[Any]:
        """See `InformerFactory.add_event_handler`."""
        usable = (
            each
            for each in self._informers
            if each.options == _options(watch) and not each.is_started
        )
        informer = next(usable, None)
        if informer is None:
            informer = _Informer(watch)
            self._informers.append(informer)
        self._by_handler[handler] = informer
        store = informer.shared.typed_informer(watch.model).store
        store.notify_unchanged = store.notify_unchanged or watch.notify_unchanged
        store.keep_full_objects = store.keep_full_objects or watch.full_object
        store.reflector_error = lambda: informer.error
        informer.shared.add_event_handler(watch.model, handler)
        return store

    def start(self) -> None:
        """List the served kinds of new informers."""
        for informer in self._informers:
            informer.is_started = True
            if not self._serves(informer.shared.kind):
                informer.error = f"'{informer.shared.kind}' is not served"
            elif informer.error:
                informer.list(self._objects(informer.shared.kind))

    async def remove_event_handler(self, handler: EventHandler) -> None:
        """See `InformerFactory.remove_event_handler`."""
        informer = self._by_handler.pop(handler)
        if informer.shared.remove_event_handler(handler):
            self._informers.remove(informer)

    def errors(self, handlers: Iterable[EventHandler]) -> list[str]:
        """See `InformerFactory.errors`."""
        found = dict.fromkeys(self._by_handler[handler].error for handler in handlers)
        return [error for error in found if error]

    def correction(self, _kind: Kind) -> str:
        """Return nothing: a kind that is declared wrongly is not served."""
        return ""

    def record(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Record a change for `deliver`."""
        if not self.is_disconnected:
            self._events.append((kind, before, after))

    def deliver(self) -> None:
        """Deliver the recorded changes in their order."""
        events, self._events = self._events, []
        for kind, before, after in events:
            for informer in self._informers:
                if informer.shared.kind == kind and informer.shared.has_synced:
                    informer.apply(before, after)

    def relist(self) -> None:
        """List again, as after a watch that was lost."""
        for informer in self._informers:
            if informer.shared.has_synced:
                informer.list(self._objects(informer.shared.kind))

    def has(self, kind: Kind, key: Key) -> bool:
        """Return whether a store holds an object."""
        return any(
            typed.store.entry(key) is not None
            for informer in self._informers
            if informer.shared.kind == kind
            for typed in informer.shared.typed_informers
        )


def _options(watch: AnyWatch) -> tuple[Kind, str, str, str]:
    return watch.kind, watch.namespace, watch.label_selector, watch.field_selector
