"""Training in several processes: equal decisions in all of them, and sharded parameters."""
