"""What everything that is served over HTTP shares: the report, and the figures of a hub."""
