"""Traffic: when requests come, how long they are, what they share; drawn by seed, or recorded."""
