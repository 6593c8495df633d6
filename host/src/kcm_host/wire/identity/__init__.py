"""Where the API server is, who we are there, and what to do when it does not believe us."""
