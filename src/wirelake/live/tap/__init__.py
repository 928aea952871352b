"""Recording what passes: beside a hub, or in front of somebody else's server."""
