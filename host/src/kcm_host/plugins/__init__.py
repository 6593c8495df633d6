"""Finds, loads and validates plugins; a broken one is quarantined and the others run."""
