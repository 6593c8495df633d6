"""Folders for the data of servers, which go away even when their owner was killed."""

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_LOCK = "lock"


def new_folder(label: str) -> Path:
    """A fresh private folder; `remove_folder` it, or a later run of the kit will."""
    return Path(tempfile.mkdtemp(prefix=f"{label}-", dir=_own()))


def remove_folder(folder: Path) -> None:
    """Remove a folder and all that is in it; a folder that is gone already is fine."""
    shutil.rmtree(folder, ignore_errors=True)


def _own() -> Path:
    return _own_of(os.getpid())


@cache
def _own_of(pid: int) -> Path:
    """The folder of this process, which holds its lock for as long as it lives."""
    root = Path(tempfile.gettempdir()) / f"kcm-host-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    with _locked(root):
        _sweep(root)
        folder = Path(tempfile.mkdtemp(prefix=f"{pid}-", dir=root))
        # A bare descriptor, never closed: the end of the process releases it.
        fcntl.flock(os.open(folder / _LOCK, os.O_WRONLY | os.O_CREAT), fcntl.LOCK_EX)
    atexit.register(remove_folder, folder)
    return folder


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / _LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(root: Path) -> None:
    """Remove the folders whose owners are gone: nobody holds their locks."""
    for folder in root.iterdir():
        if folder.is_dir() and _abandoned(folder):
            remove_folder(folder)


def _abandoned(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
