"""Unreadable files: an error with fact, place and remedy, without a traceback."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import cases
from host.config.conftest import Load, Problems

from kcm_host.config.errors import ConfigError
from kcm_host.config.load import load_settings

#: Files, and what is said of them behind the name of the file.
BROKEN = cases("""
-> the file is empty; write for example 'controllers: {ttl: {}}'
a: [1
b: 2
-> 2:2: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence that begins
   at line 1
log:
\tlevel: info
-> 2:1: not valid YAML: a tab stands where only spaces may; indent with spaces
a: b: c
-> 1:5: not valid YAML: a colon stands where no key can be; check the indentation, or quote the
   text
controllers: {ttl: }
---
a: 1
-> 2:1: not valid YAML: a second document begins here; keep one: remove what follows the line
   '---'
# one
a: \x01
-> 2: not valid YAML: control characters are not allowed (1); remove the character
a: *b
-> 1:4: not valid YAML: found undefined alias
a: !mine 1
-> 1:4: tag '!mine' is not supported; leave it out
a: !!python/object:os.system [x]
-> 1:4: tag 'tag:yaml.org,2002:python/object:os.system' is not supported; leave it out
? [a]
: 1
-> 1:3: a key must be text, not a mapping or a list
# nothing
-> the file is empty; write for example 'controllers: {ttl: {}}'
- ttl
-> 1:1: the file must hold a mapping, found a list; write for example 'controllers: {ttl: {}}'
ttl
-> 1:1: the file must hold a mapping, found a single value; write for example 'controllers: {ttl:
   {}}'
a: &x
  b: *x
-> 1:4: this value contains an alias of itself
""")
BROKEN["[" * 100_000] = "1:51: more than 50 levels deep"


@pytest.mark.parametrize(
    ("text", "problem"), BROKEN.items(), ids=[text[:20] or "empty" for text in BROKEN]
)
def test_broken_yaml_is_one_problem_with_its_line(
    problems: Problems, text: str, problem: str
) -> None:
    """Each broken file is one line with place, fact and remedy (design 7)."""
    [found] = problems(text)
    assert found.removeprefix("config.yaml:").lstrip() == problem


def test_aliases_that_multiply_are_refused(problems: Problems) -> None:
    """Aliases of aliases that unfold to millions of values end in an error at once (design 7)."""
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 9)]
    [problem] = problems("\n".join(rows))
    assert problem.endswith("more than 20000 values, aliases counted")


def test_text_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    """A file in another encoding is refused with line and byte (design 7)."""
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"# ok\nkubeconfig: k\xfcbe\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file=path, environ={})
    assert str(caught.value) == (
        f"{path}:2: not UTF-8: byte 0xfc at position 18; save the file as UTF-8"
    )


def test_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    """A file with a UTF-8 byte order mark loads (design 7)."""
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfcontrollers: {ttl: {}}\r\n")
    assert "ttl" in load_settings(file=path, environ={}).settings.controllers


def test_missing_file_and_wrong_flags_are_reported_together(tmp_path: Path) -> None:
    """A file that is not there does not hide what else is wrong (design 7)."""
    path = tmp_path / "absent.yaml"
    with pytest.raises(ConfigError) as caught:
        load_settings(file=path, environ={}, overrides=["nonsense"])
    first, second = map(str, caught.value.problems)
    assert first == f"{path}: there is no such file; check the path"
    assert "'--set' takes path=value" in second


def test_directory_is_named_as_such(tmp_path: Path) -> None:
    """A directory in place of the file is refused in plain words (design 7)."""
    with pytest.raises(ConfigError, match="this is a directory; name a file inside it"):
        load_settings(file=tmp_path, environ={})


def test_too_large_file_is_refused(write: Callable[[str], Path]) -> None:
    """A file beyond 1 MiB is not read into values (design 7)."""
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load_settings(file=write("#" * ((1 << 20) + 1)), environ={})


def test_no_folder_in_place_of_a_file(write: Callable[[str], Path]) -> None:
    """A path through a file has the error of the system (design 7)."""
    with pytest.raises(ConfigError, match="the file cannot be read: Not a directory"):
        load_settings(file=write("a: 1") / "config.yaml", environ={})


def test_json_loads_like_yaml(load: Load) -> None:
    """A JSON file, also with tabs, has the same settings (design 7)."""
    value = {"controllers": {"ttl": {"workers": 3, "qps": 0.5}}, "http": {"bind": "[::1]:0"}}
    from_json = load(json.dumps(value, indent="\t")).settings
    from_yaml = load("controllers: {ttl: {workers: 3, qps: 0.5}}\nhttp: {bind: '[::1]:0'}").settings
    assert from_json == from_yaml
