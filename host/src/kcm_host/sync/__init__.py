"""Calling a sync, and the one way from it to a request."""
