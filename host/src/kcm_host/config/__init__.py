"""Settings of the host: file, variables and flags merged with their origins, validated once."""
