"""What follows from a store of runs: queries, claims, scores and profiles."""
