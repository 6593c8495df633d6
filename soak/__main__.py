"""`python -m soak --minutes 60`: churn and faults, then whether the host has grown."""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.candidates import clean_environment
from bench.stage import Stage, fresh_stage

from kcm_host_testing.process import Process
from kcm_host_testing.proxy import FaultProxy
from soak.churn import Churn
from soak.samples import Growth, Sample, growth, sample
from soak.trouble import Trouble

CONTROLLERS = ("ttl", "clusterrole-aggregation", "servicecidrs", "resourceclaim", "resourcequota")
CHANGES_A_SECOND = 10
#: Caches, pools and arenas fill in the first minutes; only what follows is judged.
WARM_UP_SHARE = 0.1
SAMPLE_SECONDS = 10.0
FAULT_SECONDS = (15.0, 45.0)
TOLD_SECONDS = 60.0


def main() -> int:
    """Return the exit code: 0 nothing grew, 1 something did, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _options()
    try:
        samples = _soak(options.minutes, random.Random(options.seed))
    except KeyboardInterrupt:
        _say("interrupted; everything is ended and removed")
        return 130
    found = growth(samples)
    sys.stdout.write(_as_json(samples, found) if options.output == "json" else _as_table(found))
    return 1 if any(each.too_much for each in found) else 0


def _soak(minutes: float, chance: random.Random) -> Sequence[Sample]:
    with fresh_stage() as stage, FaultProxy(stage.server) as proxy:
        churn = Churn(stage, chance)
        churn.prepare()
        with tempfile.TemporaryDirectory(prefix="kcm-host-soak-") as folder:
            host = _host(Path(folder), proxy.kubeconfig())
            host.start()
            try:
                host.wait_until(lambda: bool(_address(host.log)), timeout_seconds=60)
                return _samples(
                    host,
                    stage=stage,
                    churn=churn,
                    trouble=Trouble(proxy, chance),
                    minutes=minutes,
                    chance=chance,
                )
            finally:
                host.stop(grace_seconds=20)


def _samples(
    host: Process,
    stage: Stage,
    churn: Churn,
    trouble: Trouble,
    minutes: float,
    chance: random.Random,
) -> Sequence[Sample]:
    """Return a sample every 10 s, while changes and faults go on."""
    began = time.monotonic()
    end = began + minutes * 60
    next_sample = began + minutes * 60 * WARM_UP_SHARE
    next_fault, told = began + FAULT_SECONDS[0], began
    samples: list[Sample] = []
    changes = faults = 0
    address = _address(host.log)
    while (now := time.monotonic()) < end:
        churn.step()
        changes += 1
        if now >= next_fault:
            trouble.next()
            faults += 1
            next_fault = now + chance.uniform(*FAULT_SECONDS)
        if now >= next_sample:
            samples.append(sample(host.pid, address, host.log, minutes=(now - began) / 60))
            next_sample = now + SAMPLE_SECONDS
        if now >= told and samples:
            _say(_progress(samples[-1], changes, faults))
            told = now + TOLD_SECONDS
        time.sleep(max(0.0, now + 1 / CHANGES_A_SECOND - time.monotonic()))
    trouble.end()
    return samples


def _host(folder: Path, kubeconfig: Path) -> Process:
    config = {
        "controllers": {name: {} for name in CONTROLLERS},
        "leaderElection": {"enabled": False},
        "http": {"bind": "127.0.0.1:0"},
        "log": {"format": "json"},
    }
    file = folder / "kcm-host.yaml"
    file.write_text(json.dumps(config))
    program = [sys.executable, "-m", "kcm_host", "run", "-c", str(file)]
    return Process(
        [*program, "--kubeconfig", str(kubeconfig)],
        log=folder / "kcm-host.log",
        environment=clean_environment(),
    )


def _address(log: Path) -> str:
    """Return where the pages are, empty as long as they are not served."""
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{") and (found := json.loads(line))["event"] == "endpoints served":
            return str(found["address"])
    return ""


def _progress(now: Sample, changes: int, faults: int) -> str:
    return (
        f"{now.minutes:6.1f} min  {now.rss_mib:6.1f} MiB  {now.descriptors} descriptors  "
        f"{now.tasks} tasks  {now.log_lines} log lines  {changes} changes  {faults} faults"
    )


def _as_table(found: Sequence[Growth]) -> str:
    lines = [f"{'':12} {'first half':>12} {'last half':>12} {'an hour':>12}  allowed"]
    for each in found:
        allowed = "" if each.most is None else f"+{each.most:g}{'  TOO MUCH' * each.too_much}"
        figures = f"{each.first_half:12.2f} {each.last_half:12.2f} {each.slope_an_hour:+12.2f}"
        lines.append(f"{each.name:12} {figures}  {allowed}".rstrip())
    return "\n".join(lines) + "\n"


def _as_json(samples: Sequence[Sample], found: Sequence[Growth]) -> str:
    whole = {"samples": list(map(asdict, samples)), "growth": list(map(asdict, found))}
    return json.dumps(whole, indent=2) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    return parser.parse_args()


def _say(line: str) -> None:
    """Progress goes to stderr, so that the output can be piped."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
