"""What a method may touch: messages, cases, layouts, sums of networks, its site and its server."""
