"""The cheapest deployments that keep promises to users under traffic."""
