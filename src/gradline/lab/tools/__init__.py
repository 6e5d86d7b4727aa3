"""Small helpers that know nothing of experiments: names, files, threads, words."""
