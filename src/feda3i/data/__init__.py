"""Cases, sites and federations: where the images and masks come from."""
