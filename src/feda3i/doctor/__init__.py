"""The site doctor: look at a site's cases before anybody trains on them."""
