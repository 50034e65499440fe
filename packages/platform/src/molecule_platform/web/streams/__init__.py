"""Streamed responses: server-sent events and WebSocket."""
