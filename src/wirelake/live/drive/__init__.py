"""Sessions on an event loop: sockets, TLS, WebSocket, clients that await."""
