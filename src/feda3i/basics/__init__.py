"""Plumbing for every package: files, parallel calls, memory."""
