"""The limit of open files at the start."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from kcm_host.runtime import process
process.MAX_FILES = {most}
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(process.raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "most", "found"),
    [
        pytest.param(64, 256, 65_536, "256 256 256", id="to the hard limit"),
        pytest.param(64, 256, 128, "128 128 256", id="to what is enough"),
        pytest.param(200, 256, 128, "200 200 256", id="never lowered"),
    ],
)
def test_soft_limit_is_raised(soft: int, hard: int, most: int, found: str) -> None:
    """The process may open as many files as its hard limit allows, within reason (F-15)."""
    program = PROGRAM.format(soft=soft, hard=hard, most=most)
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said.strip() == found
