"""A deployment under traffic: set up, simulated, and told as tables."""
