"""Calls syncs, handles their results, and sends what they write."""
