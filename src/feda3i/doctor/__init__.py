"""The site doctor: look at a site's cases before anyone trains on them."""
