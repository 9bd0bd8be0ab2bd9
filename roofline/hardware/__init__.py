"""Machines: what a GPU, a link and a node can do, and where each figure comes from."""
