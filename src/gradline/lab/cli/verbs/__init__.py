"""The verbs of the command line, one in each module: a click command `verb`, and `ORDER`, its place in the help."""
