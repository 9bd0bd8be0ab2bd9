"""What users feel: latency, throughput, price and energy of a deployment."""
