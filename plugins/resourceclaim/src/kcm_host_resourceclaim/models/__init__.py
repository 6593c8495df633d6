"""The fields read of each kind, and nothing more."""
