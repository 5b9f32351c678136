"""One small program for each contender: it plays the job that it is given, and prints when each round ended."""
