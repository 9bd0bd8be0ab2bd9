"""Sweeps on disk: chunks of work, parts that survive a kill at any moment, and their result."""
