"""Take a model away: one graph from picture to mask, in formats that other programs read."""
