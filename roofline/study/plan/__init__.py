"""The cheapest deployments that keep an SLO under traffic."""
