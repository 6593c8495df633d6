"""Attempts that are repeated after errors that may pass."""

import asyncio

import pytest
from virtual_time import VirtualTimeLoop

from kcm_host.retries import retry


class Attempts:
    """An attempt that fails some times, with the times of its calls since the first one."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.at: list[float] = []

    async def __call__(self) -> str:
        """Fail as long as there are errors."""
        loop = asyncio.get_running_loop()
        self.at.append(loop.time() - self.at[0] if self.at else loop.time())
        if self._errors:
            raise self._errors.pop(0)
        return "done"


def test_the_first_success_is_returned() -> None:
    """An attempt is repeated after each delay until it succeeds."""
    attempts = Attempts(OSError("away"), OSError("away"))
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        result = runner.run(retry(attempts, on=OSError, delays=(5.0, 10.0, 60.0)))
    assert result == "done"
    assert attempts.at[1:] == pytest.approx([5.0, 15.0])


async def test_the_last_error_is_raised() -> None:
    """When there is no further delay the error of the last attempt is raised."""
    attempts = Attempts(OSError("first"), OSError("last"))
    with pytest.raises(OSError, match="last"):
        await retry(attempts, on=OSError, delays=(0.0,))


@pytest.mark.parametrize("error", [ValueError("other"), OSError("for good")], ids=str)
async def test_other_errors_are_raised_at_once(error: Exception) -> None:
    """An error of another type, and one that is not temporary, is not repeated."""
    attempts = Attempts(error)
    with pytest.raises(type(error), match=str(error)):
        await retry(
            attempts,
            on=OSError,
            delays=(60.0,),
            is_temporary=lambda error: "good" not in str(error),
        )
    assert len(attempts.at) == 1
