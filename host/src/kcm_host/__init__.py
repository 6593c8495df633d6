"""Runs Kubernetes control loops that ship as separately versioned plugins."""

__all__ = ["__version__"]

# A literal: asking importlib.metadata for it costs 20 ms of every start.
__version__ = "0.2.0"
