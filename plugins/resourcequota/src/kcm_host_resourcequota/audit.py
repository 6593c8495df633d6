"""A walk through all records that finds and repairs what the ledger has got wrong."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from kcm_host.api import Key, View
from kcm_host_resourcequota.evaluators.base import Evaluator
from kcm_host_resourcequota.usage_index import Books

log = logging.getLogger(__name__)

#: What is walked through: an evaluator, and a namespace that has quotas.
Place = tuple[Evaluator, str]


class Audit:
    """
    Compares records with objects and totals with records, a slice at a time (RQ-B40).

    `evaluators` gives those that count, `namespaces` where there are quotas, `is_ready` whether an
    evaluator still counts. A mismatch is replaced by the recount, logged and counted; in normal
    operation there is none (RQ-B41).
    """

    def __init__(
        self,
        books: Books,
        *,
        evaluators: Callable[[], Sequence[Evaluator]],
        namespaces: Callable[[], Collection[str]],
        is_ready: Callable[[Evaluator], bool],
    ) -> None:
        self.mismatches = 0
        self.rounds = 0
        self._books = books
        self._evaluators = evaluators
        self._namespaces = namespaces
        self._is_ready = is_ready
        self._round: Iterator[tuple[Place | None, int]] | None = None
        self._steps = 0
        #: Steps that are to be taken; below 0 after one that stood for many.
        self._due = 0.0

    def slice(self, view: View, *, share: float) -> Sequence[Place]:
        """
        Go on with a `share` of a round, and give the places where something was repaired.

        Whatever is compared in one slice is compared at one moment, so no event falls between.
        """
        repaired: list[Place] = []
        if self._round is None:
            self._round = self._walk(view)
            self._steps = self._size(view)
            self._due = 0.0
        self._due += share * self._steps
        while self._due > 0:
            try:
                found, steps = next(self._round)
            except StopIteration:
                self._round = None
                self.rounds += 1
                break
            self._due -= steps
            if found is not None:
                repaired.append(found)
        return repaired

    def _size(self, view: View) -> int:
        """Give how many steps a round has, without taking them."""
        ledger = self._books.ledger
        steps = 1
        for evaluator in self._evaluators():
            records = ledger.objects(evaluator.resource)
            steps += records + ledger.accounts(evaluator.resource)
            if self._may_have_strays(evaluator, view):
                steps += records + len(view.of(evaluator.kind, evaluator.model))
        return steps

    def _walk(self, view: View) -> Iterator[tuple[Place | None, int]]:
        """Give what was repaired, one look after the other, with the steps that it stands for."""
        ledger = self._books.ledger
        for evaluator in list(self._evaluators()):
            for namespace in ledger.namespaces(evaluator.resource):
                account = ledger.account(evaluator.resource, namespace)
                if account is None:
                    continue
                if namespace not in self._namespaces():
                    yield None, len(account.records) + 1
                    continue
                for name in list(account.records):
                    yield self._check(evaluator, Key(name, namespace), view), 1
                yield self._add_up(evaluator, namespace), 1
            if self._may_have_strays(evaluator, view):
                for key in self._books.strays(evaluator, view):
                    yield self._check(evaluator, key, view) if key is not None else None, 1

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
        ledger.correct(evaluator.resource, key, new)
        return (evaluator, key.namespace)

    def _add_up(self, evaluator: Evaluator, namespace: str) -> Place | None:
        """Compare the totals of an account with the sum of its records."""
        account = self._books.ledger.account(evaluator.resource, namespace)
        if account is None or account.groups == account.recounted():
            return None
        self._report(evaluator, Key("", namespace), old="totals", new="sum of the records")
        account.groups = account.recounted()
        return (evaluator, namespace)

    def _may_have_strays(self, evaluator: Evaluator, view: View) -> bool:
        """Whether the numbers say that ledger and store may have different keys."""
        if not self._is_ready(evaluator):
            return False
        objects = view.of(evaluator.kind, evaluator.model)
        return len(objects) != self._books.ledger.objects(evaluator.resource)

    def _report(self, evaluator: Evaluator, key: Key, *, old: object, new: object) -> None:
        self.mismatches += 1
        pairs = {
            "resource": evaluator.resource,
            "key": str(key),
            "recorded": str(old),
            "recounted": str(new),
        }
        log.error("ledger mismatch repaired", extra={"kv": pairs})
