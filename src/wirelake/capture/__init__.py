"""Captured traffic: files in (``read``) and out (``write``), TCP, WebSocket, protocols, messages."""
