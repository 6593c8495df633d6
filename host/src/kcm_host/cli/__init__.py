"""The command line: one file a verb family, no logic."""
