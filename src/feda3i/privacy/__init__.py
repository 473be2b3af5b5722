"""Sums that hide their parts (secure aggregation), and noise that hides a site (privacy)."""
