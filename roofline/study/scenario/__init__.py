"""Scenarios: which configurations to price, what they must keep to, and what is wanted of them."""
