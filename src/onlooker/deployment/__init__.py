"""Real parties on real machines: their files and keys, and the processes that speak to each other."""
