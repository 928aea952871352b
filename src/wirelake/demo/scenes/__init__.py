"""Scenes that are played live: one module per protocol."""
