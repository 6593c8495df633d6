"""Runs controllers: their start, their event handlers, restart and drain; and the host itself."""
