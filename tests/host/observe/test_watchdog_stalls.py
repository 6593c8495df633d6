"""An event loop that stands still is seen, blamed on the right plugin, and cleared again."""

import logging
import threading
from collections.abc import Iterator

import pytest

from kcm_host.observe.watchdog import Watchdog
from tests_observe import Blocker, LoopThread, until
