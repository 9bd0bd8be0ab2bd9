"""Questions about many deployments at once."""
