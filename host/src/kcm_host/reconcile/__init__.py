"""Reconciliation: workers, the writer of a sync, and the sender of requests and Events."""
