"""Finding and loading plugins, so that a broken one stops nobody but itself."""
