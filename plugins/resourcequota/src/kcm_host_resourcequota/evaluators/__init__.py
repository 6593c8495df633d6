"""The evaluators: what the objects of each kind use of a quota."""
