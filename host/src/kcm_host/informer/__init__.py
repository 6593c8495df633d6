"""Informers: list and watch, decode, store, and tell event handlers of every change."""
