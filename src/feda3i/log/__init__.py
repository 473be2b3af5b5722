"""What a run says while it goes on: the event log and the console."""
