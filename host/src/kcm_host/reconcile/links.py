"""Which sync wrote what: so that the event it comes back as can be linked to it."""

from collections import OrderedDict

import msgspec

from kcm_host.api.records import Cause
from kcm_host.api.writes import Receipt, Write

#: Echoes arrive within moments; older writes are forgotten.
KEPT = 1000

SpanContext = tuple[int, int]


class WriteLinks:
    """The last writes of one controller with the spans they were made in; for traces only."""

    def __init__(self) -> None:
        self._spans: OrderedDict[tuple[str, str, str], SpanContext] = OrderedDict()

    def remember(self, write: Write, receipt: Receipt, span: SpanContext | None) -> None:
        """Keep the span of a write under the version it led to."""
        if span is None or not receipt.version:
            return
        self._spans[str(write.kind), str(write.key), receipt.version] = span
        if len(self._spans) > KEPT:
            self._spans.popitem(last=False)

    def linked(self, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
        """
        Give the causes, those that are echoes with a link to the sync that wrote.

        Looked up when a sync starts, not when the event comes: that may be before the answer.
        """
        return tuple(self._link(cause) for cause in causes)

    def _link(self, cause: Cause) -> Cause:
        span = self._spans.get((cause.kind, cause.object, cause.version))
        return cause if span is None else msgspec.structs.replace(cause, link=span)
