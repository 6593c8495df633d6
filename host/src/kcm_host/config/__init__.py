"""Settings of the host: one file, variables and flags, merged with their origins, validated once."""
