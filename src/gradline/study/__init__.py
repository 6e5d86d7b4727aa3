"""The paper's study: its data sets, problems and runs (install it with `pip install 'gradline[study]'`)."""
