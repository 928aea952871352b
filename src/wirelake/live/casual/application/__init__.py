"""A casual domain as programs use it: what its session does, to be awaited or used from threads."""
