"""The work queue: which keys are to be synced, when, and why."""
