"""The event loop on a virtual clock, which is a part of the test kit."""

from kcm_host_testing.virtual_time import BEGINNING, Deadlock, VirtualTimeLoop

__all__ = ["BEGINNING", "Deadlock", "VirtualTimeLoop"]
