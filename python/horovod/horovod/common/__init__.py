"""What concerns no framework."""
