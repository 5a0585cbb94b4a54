"""What scripts and tests use of the launcher; `ronde run` itself is another program."""
