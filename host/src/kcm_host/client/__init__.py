"""The client of the API server: requests, discovery, service accounts, and their errors."""
