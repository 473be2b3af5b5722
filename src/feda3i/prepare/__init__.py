"""Prepare a data set: one checked, hashed folder from files of any layout."""
