"""The work queue: which keys are due, in which order, and why."""
