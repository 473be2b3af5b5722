"""Reports of runs: HTML pages, tables and pictures."""
