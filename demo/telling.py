"""How the demonstration talks, and waits for what it shows."""

import time
from collections.abc import Callable

from rich.console import Console

PATIENCE_SECONDS = 30

console = Console(highlight=False)


def wait_for(question: Callable[[], str | None]) -> str:
    """Ask until there is an answer; a demonstration that hangs is a failure."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := question()) is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"not seen within {PATIENCE_SECONDS} s")
        time.sleep(0.05)
    return answer


def step(text: str) -> None:
    """Print the heading of the next step."""
    console.print(f"\n[bold]{text}[/]")


def tell(text: str) -> None:
    """Print what was seen."""
    console.print(f"  {text}")
