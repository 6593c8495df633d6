"""Whatever stands in a config file, a variable or a flag: settings, or errors with their place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fuzz_input import one_input
from hypothesis import example, given
from hypothesis import strategies as st

from kcm_host.cli.commands import kcm_host
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import load_settings

Run = Callable[..., Result]
GOOD = """
kubeconfig: ~/.kube/config
controllers: &all
  ttl: {workers: 3, qps: 2.5, burst: 5}
  clusterrole-aggregation:
    settings: {a: [1, 2], b: *nothing}
serviceAccountCredentials: true
leaderElection: {enabled: false}
http: {bind: "127.0.0.1:10270"}
telemetry: {traces: {exporter: otlp, endpoint: "http://127.0.0.1:4318", sampleRatio: 0.1}}
log: {level: info, format: text}
startTimeout: 1m30s
""".replace("*nothing", "null")
PIECES = [
    *"\t\n\r\0 -:?,[]{}#&*!|>'\"%@`~\x85\u2028\ufeff\ud7ff\ue000\U0001f600",
    "\n  ", ": ", "- ", "&a ", "*a", "<<: *all", "<<: [*all, *all]", "!!python/object:os.system ",
    "!x ", "!!binary ", "!!set ", "!!omap ", "!<tag:yaml.org,2002:int> ", "%YAML 1.1\n---\n",
    "---\n",
    "...\n", "? ", "9" * 5000, "0x" + "f" * 5000, "1e999", "-.inf", ".nan", "0o17", "1_000",
    "12:30",
    "2026-01-01", "\\x00", '"\\ud800"', "\\", "null", "true", "[" * 60, "{a: " * 60, "workers: 1, ",
    "ttl: {}, ttl-controller: {}, ", "controllers: ", "log: {}\nlog: {}\n",
]  # fmt: skip
EXPANDING = "\n".join(
    ["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
)
CHAIN = "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000))])
LARGE = {
    "many values": "a: [" + "1, " * 300_000 + "]",
    "many keys": "\n".join(f"k{n}: 1" for n in range(80_000)),
    "many unknown keys": "controllers: {ttl: {}}\n" + "\n".join(f"lo{n}: 1" for n in range(9_000)),
    "many keys twice": "controllers: {ttl: {}}\n" + "log: {}\n" * 9_000,
    "many wrong values": f"controllers: {{{', '.join(f'c{n}: 1' for n in range(9_000))}}}",
    "a long key": "controllers: {ttl: {}}\n? " + "k" * 1_000_000 + "\n: 1",
    "a long value": "kubeconfig: " + "x" * 1_000_000 + "\nlog: " + "1" * 40_000,
    "a long number": "startTimeout: " + "9" * 1_000_000,
    "long fractions": "controllers: {ttl: {qps: 0." + "9" * 900_000 + "}}",
    "expanding aliases": EXPANDING,
    "a chain of aliases": CHAIN,
    "deep": "[" * 1_000_000,
    "deep mappings": "{a: " * 250_000,
    "deep blocks": "\n".join(" " * n + "a:" for n in range(1_400)),
    "dashes": "- " * 500_000,
    "questions": "? " * 500_000,
    "anchors": "&a " * 300_000,
    "comments": "#\n" * 500_000,
    "quotes": '"' + "\\\n" * 500_000,
    "merges": "a: &a {b: 1}\nc:\n" + "  <<: *a\n" * 9_000,
}


@st.composite
def mutated(draw: st.DrawFn, text: str = GOOD) -> str:
    """Return a valid file with some pieces of YAML put in, and some of it cut out or repeated."""
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.sampled_from([0, 0, 0, 1, 2, 10, 100])))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.text(max_size=5), st.just(text[begin:])))
        text = text[:begin] + piece + text[end:]
    return text


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(PIECES),
)  # fmt: skip
KEYS = [
    "controllers", "ttl", "ttl-controller", "workers", "qps", "burst", "settings", "http", "bind",
    "log", "level", "kubeconfig", "telemetry", "traces", "endpoint", "startTimeout", "extensions",
    "leaderElection", "enabled", "<<", "",
]  # fmt: skip
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=6))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)


def told(**layers: Any) -> list[str]:
    """Load what is given and give the errors; each is whole, in one line, and names its place."""
    try:
        loaded = load_settings(**{"file": None, "environ": {}, **layers})
    except ConfigError as error:
        problems = error.problems
    else:
        json.dumps(loaded.settings.model_dump(mode="json"))
        return []
    assert 0 < len(problems) <= 101
    for problem in problems:
        line = str(problem)
        assert problem.fact
        assert len(line) < 2_000
        assert problem.origin is not None or "no config file is named" in line
        assert "default" not in line.partition(":")[0]
    return [str(problem) for problem in problems if problem.origin is not None]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name a file for one example after the other."""
    return tmp_path_factory.mktemp("fuzz") / "kcm-host.yaml"


@given(text=mutated())
def test_a_file_of_any_text(path: Path, text: str) -> None:
    """A mutated file is loaded or refused in time."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    with one_input("config file, text"):
        assert all(str(path) in line for line in told(file=path))


@given(data=st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda text, encoding: text.encode(encoding, errors="replace"),
        mutated(),
        st.sampled_from(["utf-16", "utf-16-be", "utf-32", "latin-1", "cp037", "utf-8-sig"]),
    ),
))  # fmt: skip
def test_a_file_of_any_bytes(path: Path, data: bytes) -> None:
    """Other encodings are told with the line, and never taken for settings by mistake."""
    path.write_bytes(data)
    with one_input("config file, bytes"):
        assert all(str(path) in line for line in told(file=path))


@given(value=values)
def test_a_file_of_any_structure(path: Path, value: Any) -> None:
    """Values of any type at any key are loaded or refused in time."""
    path.write_text(json.dumps(value), encoding="utf-8")
    with one_input("config file, structure"):
        assert all(str(path) in line for line in told(file=path))


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_large_file_is_no_burden(path: Path, text: str) -> None:
    """What is made to cost much time or memory is refused, or loaded, in less than a second."""
    path.write_text(text, encoding="utf-8")
    with one_input("config file, large"):
        told(file=path)


@pytest.fixture(scope="module")
def command() -> Run:
    """Run the command line in this process, after one run that imports all it needs."""

    def run(*arguments: str) -> Result:
        ended = CliRunner().invoke(kcm_host, arguments)
        assert isinstance(ended.exception, SystemExit | None), ended.exception
        return ended

    run("check", "--offline", "--set", "controllers.ttl={}")
    return run


names = st.one_of(
    st.lists(
        st.sampled_from([*map(str.upper, KEYS), "CLUSTERROLE_AGGREGATION", "X"]), max_size=4
    ).map("__".join),
    st.text(st.characters(exclude_characters="=\0", max_codepoint=0xDFFF), max_size=20),
)
contents = st.one_of(
    st.sampled_from(PIECES).filter(lambda piece: "\0" not in piece),
    st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=20),
    values.map(json.dumps),
)


@given(environ=st.dictionaries(names.map("KCM_HOST_{}".format), contents, max_size=4))
@example(environ={"KCM_HOST_CONTROLLERS": "\udcff"})
def test_variables_of_any_name_and_value(environ: dict[str, str]) -> None:
    """A variable is a setting, a warning, or an error that names it."""
    with one_input("variables"):
        for line in told(environ=environ, overrides=["log.level=info"]):
            assert "variable KCM_HOST_" in line


paths = st.lists(keys, max_size=4).map(".".join)


@given(
    overrides=st.lists(
        st.one_of(st.builds("{}={}".format, paths, contents), st.text(max_size=9)), max_size=4
    )
)
@example(overrides=["controllers.ttl=\udcff"])
@example(overrides=["." * 100_000 + "=1"])
@example(overrides=["=".join(["a.b"] * 10_000)])
def test_flags_of_any_path_and_value(overrides: list[str]) -> None:
    """A `--set` is a setting, or an error that names it."""
    with one_input("--set flags"):
        for line in told(overrides=overrides):
            assert "--set" in line


@given(overrides=st.lists(st.builds("{}={}".format, keys, contents), max_size=2), text=mutated())
def test_the_command_line_ends_in_order(
    path: Path, command: Run, overrides: list[str], text: str
) -> None:
    """Exit code 2 and a line for each mistake, never a traceback."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    with one_input("command line"):
        flags = [word for override in overrides for word in ("--set", override)]
        ended = command("check", "--offline", "-c", str(path), *flags)
    lines = ended.stderr.split("\n")[:-1]
    assert all(line.startswith(("error: ", "warning: ")) for line in lines), lines
    assert ended.exit_code in (0, 2)
    assert any(line.startswith("error: ") for line in lines) is (ended.exit_code == 2)
