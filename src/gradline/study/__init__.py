"""The paper's experiments: problems, plans, engines and a store of results."""
