"""The report of runs: reading folders as they are, comparing them, and the sections of the page."""
