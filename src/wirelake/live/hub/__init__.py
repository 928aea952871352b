"""One process that serves several protocols."""
