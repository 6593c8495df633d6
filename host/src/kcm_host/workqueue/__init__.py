"""The work queue of a controller: priorities, delayed adds and rate limits."""
