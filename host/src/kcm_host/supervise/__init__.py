"""Lives of controllers and of the host: start, sharing of streams, restart, drain."""
