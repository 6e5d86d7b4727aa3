"""What is trained: a problem builds a task from a seed."""
