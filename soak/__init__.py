"""Hours of changes and faults beside one host, to see whether anything grows."""
