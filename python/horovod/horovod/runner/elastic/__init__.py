"""What scripts and tests use of elastic jobs; `ronde run` drives them."""
