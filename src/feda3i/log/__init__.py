"""What a run reports while it works: the event log and the console."""
