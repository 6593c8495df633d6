"""The metrics that controllers have of their own, without those that would spoil a scrape."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.metrics import Metric
from kcm_host.observe.lines import one_line
from kcm_host.observe.log import OncePerFact
from kcm_host.observe.sound_metrics import copy_of, problem_of

log = logging.getLogger(__name__)

#: Of a name that is wrong in itself, so much is told.
NAME_SHOWN = 100
#: Why a metric was left out, as keys of what was logged.
BAD, TAKEN = "bad", "taken"

Ask = Callable[[], Sequence[Metric]]
#: By controller, what to call for its metrics now; that may raise.
Offers = Mapping[str, Ask]
#: By controller, its metrics at one moment.
Told = Mapping[str, Sequence[Metric]]


class PluginMetrics:
    """
    Asks controllers for their metrics.

    Prometheus refuses a whole scrape for one bad line, so a bad metric is left out and the others
    are shown. Each mistake is logged once, whatever its text, which may differ at
    every scrape.
    """

    def __init__(self) -> None:
        #: By controller, exceptions out of its `kcm_metrics`.
        self.errors: dict[str, int] = {}
        # One for each thread: a scrape is asked for on the loop and shown beside it.
        self._failed = OncePerFact()
        self._left_out = OncePerFact()

    def asked(self, offers: Offers) -> Told:
        """
        Give what each controller tells, right or wrong.

        Belongs to the event loop, so it does no more than it must: what comes out is a copy, which
        any thread may check and show.
        """
        return {name: self._answer(name, ask) for name, ask in offers.items()}

    def shown(self, told: Told, *, taken: Iterable[str]) -> Iterator[Metric]:
        """
        Give the metrics that are right and whose names nobody else has; `taken` are the host's.

        Belongs to the thread of the pages. Of controllers that use one name, the one that comes
        first by its own name has it.
        """
        owners = dict.fromkeys(taken, "the host")
        for controller, metrics in sorted(told.items()):
            for metric in self._sound(controller, metrics):
                owner = owners.get(metric.name)
                if owner is None:
                    owners[metric.name] = f"controller '{controller}'"
                    yield metric
                else:
                    problem = f"{owner} has a metric of that name"
                    self._leave_out(TAKEN, controller, metric.name, problem)

    def _sound(self, controller: str, metrics: Iterable[Metric]) -> Iterator[Metric]:
        for metric in metrics:
            problem = problem_of(metric)
            if problem:
                self._leave_out(BAD, controller, str(metric.name)[:NAME_SHOWN], problem)
            else:
                yield metric

    def _answer(self, controller: str, ask: Ask) -> Sequence[Metric]:
        try:
            return tuple(map(copy_of, ask()))
        except PLUGIN_FAILURES as error:
            self.errors[controller] = self.errors.get(controller, 0) + 1
            text = str(error) if isinstance(error, HostError) else one_line(error)
            if self._failed.say((controller, type(error).__name__), ""):
                pairs = {"controller": controller, "error": text}
                log.warning("a controller's metrics failed", extra={"kv": pairs})
            return ()

    def _leave_out(self, why: str, controller: str, name: str, problem: str) -> None:
        if self._left_out.say((why, controller, name), ""):
            pairs = {"controller": controller, "metric": name, "problem": problem}
            log.warning("a metric is left out", extra={"kv": pairs})
