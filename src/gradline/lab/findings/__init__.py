"""Results computed from a store of runs: tables, claims, scores and profiles."""
