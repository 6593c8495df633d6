"""`python -m parity`: record what the reference does, or play both sides and compare."""

import argparse
import sys
import time
from collections.abc import Sequence

from parity.batches import play_all
from parity.catalogue import CONTROLLERS, FIXED, RECORDED, WORKLOADS
from parity.recordings import Recordings
from parity.scenario import Scenario
from parity.side import TheHost, TheReference
from parity.verdict import verdict
from parity.workload import Moves, Workload, shortest

from kcm_host_testing import build, release
from kcm_host_testing.etcd import Etcd

#: Seeds played between two lines of progress.
AT_ONCE = 24


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say and give the exit code: 1 when anything undeclared differs."""
    options = _options(arguments)
    if release.missing_binaries():
        build.ensure()
    with Etcd() as etcd:
        if options.record:
            chosen = [one for one in RECORDED if _is_chosen(one, options)]
            return _record(etcd, chosen)
        failed = 0
        if options.fixed and options.seed is None:
            failed = _compare(etcd, [one for one in FIXED if _is_chosen(one, options)])
        workloads = [one for one in WORKLOADS if _has(options.controller, one.controller)]
        for workload in workloads if not options.only else []:
            failed += _play_seeds(etcd, workload, _seeds(options))
    _say(f"{failed} failed" if failed else "nothing undeclared differs")
    return 1 if failed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m parity",
        description="Play scenarios to the reference and to the host, and compare the results.",
    )
    parser.add_argument("--seeds", type=int, default=20, help="random seeds of each controller")
    parser.add_argument("--first-seed", type=int, default=0, help="where the seeds begin")
    parser.add_argument("--seed", type=int, help="this seed and nothing else")
    parser.add_argument(
        "--controller", action="append", choices=CONTROLLERS, help="only this one; again for more"
    )
    parser.add_argument("--only", default="", help="only fixed scenarios with this in their name")
    parser.add_argument(
        "--no-fixed", dest="fixed", action="store_false", help="nothing but random seeds"
    )
    parser.add_argument(
        "--record", action="store_true", help="play the reference alone and write down its results"
    )
    return parser.parse_args(arguments)


def _seeds(options: argparse.Namespace) -> Sequence[int]:
    if options.seed is not None:
        return [options.seed]
    return range(options.first_seed, options.first_seed + options.seeds)


def _is_chosen(scenario: Scenario, options: argparse.Namespace) -> bool:
    return _has(options.controller, scenario.controller) and options.only in scenario.id


def _has(chosen: Sequence[str] | None, controller: str) -> bool:
    return not chosen or controller in chosen


def _record(etcd: Etcd, scenarios: Sequence[Scenario]) -> int:
    (results,) = play_all(etcd, [(TheReference(), list(scenarios))])
    problems = {one: results[one].problem or results[one].late for one in results}
    failed = [one for one in scenarios if problems[one.id]]
    for scenario in failed:
        _say(f"{scenario.id} is not recorded: {problems[scenario.id]}")
    for controller in CONTROLLERS:
        of = [one for one in scenarios if one.controller == controller and one not in failed]
        known = [one for one in RECORDED if one.controller == controller]
        if of:
            recordings = Recordings(controller)
            recordings.keep(((one, results[one.id]) for one in of), known)
            _say(f"{len(of)} recorded in {recordings.path}")
    return 1 if failed else 0


def _compare(etcd: Etcd, scenarios: Sequence[Scenario]) -> int:
    """Play scenarios to both and tell which differ; give how many."""
    verdicts = _verdicts(etcd, scenarios)
    for text in filter(None, verdicts):
        _say(f"\n{text}\n")
    failed = sum(map(bool, verdicts))
    _say(f"{len(scenarios)} fixed scenarios played to both, {failed} failed")
    return failed


def _verdicts(etcd: Etcd, scenarios: Sequence[Scenario]) -> list[str]:
    theirs, ours = play_all(etcd, [(TheReference(), list(scenarios)), (TheHost(), list(scenarios))])
    return [verdict(one, theirs[one.id], ours[one.id]) for one in scenarios]


def _play_seeds(etcd: Etcd, workload: Workload, seeds: Sequence[int]) -> int:
    failed: dict[int, str] = {}
    begin = time.monotonic()
    for start in range(0, len(seeds), AT_ONCE):
        part = seeds[start : start + AT_ONCE]
        verdicts = _verdicts(etcd, [workload.of_seed(seed) for seed in part])
        failed |= {seed: text for seed, text in zip(part, verdicts, strict=True) if text}
        done = f"{start + len(part)} of {len(seeds)} seeds, {time.monotonic() - begin:.0f} s"
        _say(f"{workload.controller}: {done}, {len(failed)} failed")
    for seed, text in failed.items():
        _tell_shortest(etcd, workload, seed, text)
    return len(failed)


def _tell_shortest(etcd: Etcd, workload: Workload, seed: int, first: str) -> None:
    """Make a failing seed short and say how it fails; one that fails no more is told whole."""
    told: dict[str, str] = {}

    def fail(candidates: Sequence[Moves]) -> list[bool]:
        made = [
            workload.with_moves(f"seed {seed}.{n}", seed, one) for n, one in enumerate(candidates)
        ]
        verdicts = _verdicts(etcd, made)
        told.update({repr(one): text for one, text in zip(candidates, verdicts, strict=True)})
        return [bool(text) for text in verdicts]

    whole = workload.moves_of(seed)
    if not fail([whole])[0]:
        name = f"{workload.controller} seed {seed}"
        _say(f"\n{name} differed once, but not when played again:\n{first}\n")
        return
    _say(f"making seed {seed} of {workload.controller} shorter")
    found = shortest(whole, fail)
    _say(f"\n{workload.controller} seed {seed}, made short:\n{told[repr(found)]}\n")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
