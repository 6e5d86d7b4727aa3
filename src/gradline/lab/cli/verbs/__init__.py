"""The verbs of the command line, one in each module: the click command `verb`."""
