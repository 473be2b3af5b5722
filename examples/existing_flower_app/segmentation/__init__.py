"""A small Flower app for segmentation, as someone may have it already."""
