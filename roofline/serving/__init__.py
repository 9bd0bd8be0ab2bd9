"""Serving: latency, throughput, price and energy of a deployment."""
