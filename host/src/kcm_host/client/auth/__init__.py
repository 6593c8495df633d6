"""Where the API server is, which credentials are used, and what to do when it refuses them."""
