"""Many configurations at once: a deployment over batches and lengths, and which of them to keep."""
