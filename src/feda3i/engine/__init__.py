"""Engine: sites that train, a server that plans and averages, and the loop between them."""
