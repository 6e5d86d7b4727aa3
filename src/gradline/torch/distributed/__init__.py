"""Training in several processes: decisions that are the same in all of them, and sharded parameters."""
