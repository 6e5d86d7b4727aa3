"""How it is trained: a method builds a stepper on a task."""
