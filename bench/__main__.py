"""`python -m bench`: measures, prints the table, and fails only when an outcome is wrong."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import (
    aggregation,
    claims_finished,
    claims_made,
    growth,
    looks,
    machine,
    many_nodes,
    many_pods,
    quota_churn,
    servicecidrs,
    start,
    start_five,
    toy,
    ttl_step,
)
from bench.candidates import Against, Candidate, kopf, ours, reference
from bench.installed import HOST, KOPF, TOY, Installation, installed
from bench.outcome import WrongOutcome
from bench.repeating import repeated
from bench.result import Result, result_of
from bench.table import as_json, as_table
from bench.workload import QUICK, Sizes, Workload
from kcm_host_testing import release
from kcm_host_testing.process import ServerError

DESCRIPTION = (
    "Measure kcm-host against the reference and kopf; "
    "timings never make it fail, wrong outcomes do."
)
ATTEMPTS = 3
WORKLOADS = (
    start.WORKLOAD,
    start_five.WORKLOAD,
    many_nodes.WORKLOAD,
    ttl_step.ALIKE,
    ttl_step.NEEDED,
    aggregation.WORKLOAD,
    growth.WORKLOAD,
    many_pods.WORKLOAD,
    quota_churn.WORKLOAD,
    claims_made.WORKLOAD,
    claims_finished.WORKLOAD,
    servicecidrs.WORKLOAD,
    toy.ON_EVENT,
    toy.ON_UPDATE,
    looks.WORKLOAD,
)


def main() -> int:
    """Return the exit code: 0 measured, 1 an outcome was wrong, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _options()
    wanted = [each for each in WORKLOADS if not options.only or each.name in options.only]
    try:
        results, errors = _measure_all(wanted, repeat=options.repeat, quick=options.quick)
    except KeyboardInterrupt:
        _say("interrupted; everything is ended and removed")
        return 130
    sys.stdout.write((as_json if options.output == "json" else as_table)(results) + "\n")
    for error in errors:
        _say(f"error: {error}")
    return 1 if errors else 0


def _measure_all(
    workloads: Sequence[Workload], *, repeat: int, quick: bool
) -> tuple[list[Result], list[str]]:
    """Return what could be measured, and what went wrong: one wrong outcome spoils one workload."""
    sides = {against: _sides(against) for against in {each.against for each in workloads}}
    machine.read_all([release.binaries_folder()])
    now = machine.condition()
    speed = f"calibration {now.calibration * 1000:.1f} ms"
    _say(f"{os.cpu_count()} cores, load1 {now.load1:.1f}, {speed}")
    if quick:
        _say("--quick: small sizes, whatever the titles say, so the goals are not judged")
    sizes = QUICK if quick else Sizes()
    results, errors = [], []
    for each in workloads:
        try:
            results.append(
                _measure(each, sides[each.against], sizes, repeat=repeat, judged=not quick)
            )
        except (WrongOutcome, ServerError) as error:
            errors.append(f"{each.name}: {error}")
            _say(f"error: {errors[-1]}")
    return results, errors


def _sides(against: Against) -> Sequence[Candidate]:
    """Return whom ours is compared with, and ours, both installed and read from the disk once."""
    match against:
        case Against.REFERENCE:
            return reference(), ours(_command(HOST, "kcm-host"))
        case Against.ON_EVENT | Against.ON_UPDATE:
            return kopf(_command(KOPF, "kopf"), against), ours(_command(TOY, "kcm-host"))
        case Against.NOBODY:
            return (ours(_command(HOST, "kcm-host")),)


def _command(installation: Installation, name: str) -> Path:
    environment = installed(installation, _say)
    machine.read_all([environment / "lib"])
    return environment / "bin" / name


def _measure(
    workload: Workload, sides: Sequence[Candidate], sizes: Sizes, *, repeat: int, judged: bool
) -> Result:
    _say(f"{workload.name}: {workload.title}")
    before = machine.condition()
    attempts = ATTEMPTS if judged else 1
    with workload.prepared(sizes) as measure:
        repetitions = repeated(measure, sides, count=repeat, attempts=attempts, say=_say_indented)
    conditions = before, machine.condition()
    return result_of(workload, repetitions, machine=conditions, judged=judged)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=DESCRIPTION)
    names = [each.name for each in WORKLOADS]
    parser.add_argument(
        "--only", action="append", choices=names, help="one workload; may be given again"
    )
    parser.add_argument("--repeat", type=_positive, metavar="N", help="repetitions (default 3)")
    parser.add_argument("--quick", action="store_true", help="once, and small; goals not judged")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    options.repeat = options.repeat or (1 if options.quick else 3)
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of repetitions; give 1 or more")
    return int(text)


def _say(line: str) -> None:
    """Progress goes to stderr, so that the output can be piped."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _say_indented(line: str) -> None:
    _say(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
