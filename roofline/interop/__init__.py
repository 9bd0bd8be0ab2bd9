"""Recordings of others, which are read, and commands for their tools, which are written."""
