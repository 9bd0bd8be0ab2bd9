"""Constants from measurements, and how far they can be trusted."""
