"""HTTP and WebSocket: everything that the platform serves."""
