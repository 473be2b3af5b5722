"""From a recipe to the federation that a run trains on: cases, sites, annotators, noisy masks."""
