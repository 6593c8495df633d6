"""The reference of hooks says what the code says."""

import ast
import inspect
import re
from collections.abc import Callable

import pytest
from pages import read

from kcm_host import api
from kcm_host.api import hooks
from kcm_host.api.watch import Change, Watch

PAGE = read("docs/hooks.md")
HOOKS = {name: one for name, one in vars(hooks).items() if name.startswith("kcm_")}
SECTION = re.compile(r"^### (\w+)\n\n```python\n(.*?)\n```\n(.*?)(?=^#)", re.MULTILINE | re.DOTALL)
SECTIONS = {name: (signature, text) for name, signature, text in SECTION.findall(PAGE)}


def signature_of(function: Callable[..., object]) -> str:
    """Return the head of a function as it is written."""
    return head(inspect.getsource(function))


def head(source: str) -> str:
    """Return `def name(...) -> ...` without decorators and body."""
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    tree.decorator_list, tree.body = [], [ast.Pass()]
    return ast.unparse(tree).removesuffix(":\n    pass")


def test_every_hook_has_a_section() -> None:
    """No hook is left out, and none is described that does not exist."""
    assert SECTIONS.keys() == HOOKS.keys()


@pytest.mark.parametrize("name", HOOKS)
def test_signatures_are_those_of_the_code(name: str) -> None:
    """Arguments, types and results are the same, `async` included."""
    signature, _ = SECTIONS[name]
    assert head(f"{signature}: pass") == signature_of(HOOKS[name])


@pytest.mark.parametrize("name", HOOKS)
def test_required_hooks_are_called_required(name: str) -> None:
    """The page says `Required.` exactly of the hooks that the loader demands."""
    from kcm_host.plugins.hookimpls import ROLES  # noqa: PLC0415 - only here

    _, text = SECTIONS[name]
    required = any(name in role.required for role in ROLES)
    assert text.strip().startswith("Required.") is required


@pytest.mark.parametrize("name", sorted(set(api.__all__) - {"hookimpl"}))
def test_every_public_name_is_explained(name: str) -> None:
    """Whatever `kcm_host.api` promises has its place in the reference, and a docstring."""
    assert re.search(rf"`{name}\b", PAGE)
    if inspect.isclass(getattr(api, name)):
        assert inspect.getdoc(getattr(api, name))


def test_the_fields_of_watches_and_changes_are_listed() -> None:
    """The table has the fields of `Watch`, the text those of `Change`."""
    watch = PAGE.partition("The fields of a `Watch`:")[2].partition("A `Change`")[0]
    assert re.findall(r"^\| `(\w+)` \|", watch, re.MULTILINE) == list(Watch.__dataclass_fields__)
    change = PAGE.partition("A `Change` has")[2].partition("## ")[0]
    assert set(re.findall(r"`(\w+)`", change)) - {"None"} == set(Change.__struct_fields__)
