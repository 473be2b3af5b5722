"""Reports: the event log, the console, tables and pictures."""
