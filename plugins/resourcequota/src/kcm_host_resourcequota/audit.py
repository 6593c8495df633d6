"""A walk through all records that finds and repairs what the ledger has got wrong."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from kcm_host.api import Key, View
from kcm_host_resourcequota.books import Books
from kcm_host_resourcequota.evaluator import Evaluator

log = logging.getLogger(__name__)

#: What is walked through: an evaluator, and a namespace that has quotas.
Place = tuple[Evaluator, str]


class Audit:
    """
    Compares records with objects and totals with records, a slice at a time (RQ-B40).

    `places` gives what there is to walk through when a round begins, `is_ready` whether an
    evaluator still counts. A mismatch is replaced by the recount, logged and counted; in normal
    operation there is none (RQ-B41).
    """

    def __init__(
        self,
        books: Books,
        *,
        places: Callable[[], Iterable[Place]],
        is_ready: Callable[[Evaluator], bool],
    ) -> None:
        self.mismatches = 0
        self.rounds = 0
        self._books = books
        self._places = places
        self._is_ready = is_ready
        self._round: Iterator[Place | None] | None = None
        self._steps = 0

    def slice(self, view: View, *, share: float) -> Sequence[Place]:
        """
        Go on with a `share` of a round, and give the places where something was repaired.

        Whatever is compared in one slice is compared at one moment, so no event falls between.
        """
        repaired: list[Place] = []
        if self._round is None:
            self._round = self._walk(view)
            self._steps = self._size()
        for _ in range(math.ceil(share * self._steps)):
            try:
                found = next(self._round)
            except StopIteration:
                self._round = None
                self.rounds += 1
                break
            if found is not None:
                repaired.append(found)
        return repaired

    def _size(self) -> int:
        """Give how many steps a round has."""
        ledger = self._books.ledger
        accounts = (ledger.account(each.resource, space) for each, space in self._places())
        return 1 + sum(len(each.records) + 1 if each is not None else 1 for each in accounts)

    def _walk(self, view: View) -> Iterator[Place | None]:
        evaluators = {}
        for evaluator, namespace in list(self._places()):
            evaluators[evaluator.resource] = evaluator
            account = self._books.ledger.account(evaluator.resource, namespace)
            for name in list(account.records) if account is not None else ():
                yield self._check(evaluator, Key(name, namespace), view)
            yield self._add_up(evaluator, namespace)
        for evaluator in evaluators.values():
            for key in self._strays(evaluator, view):
                yield self._check(evaluator, key, view)

    def _check(self, evaluator: Evaluator, key: Key, view: View) -> Place | None:
        """Compare one record with its object."""
        if not self._is_ready(evaluator):
            return None
        ledger = self._books.ledger
        old = ledger.record(evaluator.resource, key)
        new = self._books.contribution(evaluator, key, view)
        if old == new:
            return None
        self._report(evaluator, key, old=old, new=new)
        account = ledger.account(evaluator.resource, key.namespace)
        if account is None:
            ledger.apply(evaluator.resource, key, new)
        else:
            # The totals may never have held what the record says: they are added up anew.
            account.correct(key.name, new)
        return (evaluator, key.namespace)

    def _add_up(self, evaluator: Evaluator, namespace: str) -> Place | None:
        """Compare the totals of an account with the sum of its records."""
        account = self._books.ledger.account(evaluator.resource, namespace)
        if account is None or account.groups == account.recounted():
            return None
        self._report(evaluator, Key("", namespace), old="totals", new="sum of the records")
        account.groups = account.recounted()
        return (evaluator, namespace)

    def _strays(self, evaluator: Evaluator, view: View) -> Iterable[Key]:
        """Give the keys that only one of ledger and store has, if the numbers make that likely."""
        if not self._is_ready(evaluator):
            return ()
        objects = view.of(evaluator.kind, evaluator.model)
        if len(objects) == self._books.ledger.objects(evaluator.resource):
            return ()
        return list(self._books.strays(evaluator, view))

    def _report(self, evaluator: Evaluator, key: Key, *, old: object, new: object) -> None:
        self.mismatches += 1
        pairs = {
            "resource": evaluator.resource,
            "key": str(key),
            "recorded": str(old),
            "recounted": str(new),
        }
        log.error("ledger mismatch repaired", extra={"kv": pairs})
