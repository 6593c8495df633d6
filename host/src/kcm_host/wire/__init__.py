"""Everything between the host and the API server: connection, requests, list+watch, decode."""
