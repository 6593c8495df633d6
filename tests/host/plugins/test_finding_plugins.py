"""The plugins that are found, without importing them."""

import sys

import pytest
from host.plugins.conftest import Site

from kcm_host.plugins.finder import find
from kcm_host.plugins.hookimpls import CONTROLLER, EXTENSION


def test_what_is_found_comes_from_metadata(site: Site) -> None:
    """A candidate carries name, value, distribution, version, bounds and summary."""
    module = site.module("raise SystemExit")
    site.distribution(
        "acme-loops",
        f"acme = {module}:Loop",
        metadata="Summary: Loops.\nRequires-Dist: kcm_host>=0.1,<1\nRequires-Dist: attrs\n",
    )
    (found,) = [one for one in find(CONTROLLER.group) if one.name == "acme"]
    assert (found.distribution, found.version, found.value) == (
        "acme-loops",
        "1.0",
        f"{module}:Loop",
    )
    assert found.requires == ("kcm_host>=0.1,<1",)
    assert found.summary == "Loops."
    assert (found.module, found.attribute) == (module, "Loop")
    assert module not in sys.modules


def test_the_order_is_by_name(site: Site) -> None:
    """Candidates are sorted by name, whatever the order on the path."""
    for name in ("zeta", "alpha", "mid"):
        site.distribution(f"acme-{name}", f"{name} = nothing:Loop")
    names = [one.name for one in find(CONTROLLER.group) if one.value == "nothing:Loop"]
    assert names == ["alpha", "mid", "zeta"]


def test_one_distribution_twice_on_the_path_counts_once(site: Site) -> None:
    """An editable install on two path entries is one candidate."""
    site.distribution("acme-loops", "acme = nothing:Loop")
    site.distribution("Acme_Loops", "acme = nothing:Loop")
    assert [one.name for one in find(CONTROLLER.group)].count("acme") == 1


def test_the_copy_first_on_the_path_counts(site: Site) -> None:
    """A copy that hides another hides its entry points too, as it hides its modules."""
    site.distribution("acme-loops", "gone = nothing:Loop", version="1.0")
    site.distribution("acme-loops", "x = y:z", version="2.0", group="something.else")
    assert "gone" not in [one.name for one in find(CONTROLLER.group)]


def test_groups_are_apart(site: Site) -> None:
    """Controllers are not found as extensions."""
    site.distribution("acme-loops", "acme = nothing:Loop")
    assert "acme" not in [one.name for one in find(EXTENSION.group)]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("METADATA", b""),
        ("entry_points.txt", b"[kcm_host.controllers]\nno equals sign here\n"),
        ("entry_points.txt", b"[kcm_host.controllers]\na = \xff\xfe"),
    ],
    ids=["metadata empty", "line without =", "not utf-8"],
)
def test_unreadable_metadata_hides_no_neighbour(
    site: Site, caplog: pytest.LogCaptureFixture, file: str, content: bytes
) -> None:
    """A distribution whose metadata is damaged is logged with its folder and left out."""
    site.distribution("acme-good", "fine = nothing:Loop")
    folder = site.distribution("acme-bad", "bad = nothing:Loop")
    (folder / "acme_bad-1.0.dist-info" / file).write_bytes(content)
    assert [one.name for one in find(CONTROLLER.group) if one.name in ("bad", "fine")] == ["fine"]
    assert any(str(folder) == getattr(one, "kv", {}).get("folder") for one in caplog.records)
