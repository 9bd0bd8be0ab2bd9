"""Roofline and arithmetic-intensity simulator for LLM inference."""
