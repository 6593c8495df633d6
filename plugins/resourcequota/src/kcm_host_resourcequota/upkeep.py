"""What is done because time passes: deadlines, objects mended, the audit."""

from collections.abc import Iterable
from datetime import timedelta

from kcm_host.api import View, Wanted
from kcm_host_resourcequota.audit import Audit
from kcm_host_resourcequota.replenishment import Routing

#: Deadlines are wall-clock instants, looked at so often because the clock may be set (RQ-B21).
TICK = timedelta(seconds=1)


class Upkeep:
    """
    The work of every second.

    The audit goes once through all records in `audit_period`; zero switches it off.
    """

    def __init__(self, routing: Routing, *, audit_period: timedelta) -> None:
        self._routing = routing
        self._share = TICK / audit_period if audit_period else 0.0
        counting = routing.counting
        self.audit = Audit(
            counting.books,
            evaluators=counting.ready,
            namespaces=routing.quotas.namespaces,
            is_ready=counting.is_ready,
        )

    def tick(self, view: View) -> Iterable[Wanted]:
        """Give the keys that are due although nothing has happened."""
        wanted = [*self._expired(view), *self._mended(view)]
        if self._share:
            repaired = self.audit.slice(view, share=self._share)
            places = [(evaluator.resource, namespace) for evaluator, namespace in repaired]
            wanted += self._routing.places(places, view)
        return wanted

    def _expired(self, view: View) -> Iterable[Wanted]:
        """Recount the objects whose time has come, or whose clock was set back (RQ-B21)."""
        counting = self._routing.counting
        crossed = counting.books.crossed()
        moves = [move for place in crossed for move in counting.expired(*place, view)]
        return self._routing.moved(moves, view) if moves else ()

    def _mended(self, view: View) -> Iterable[Wanted]:
        """Queue the quotas that waited for objects which have been mended or have gone (RQ-B28)."""
        mended = self._routing.counting.mended(view)
        return self._routing.places(mended, view) if mended else ()
