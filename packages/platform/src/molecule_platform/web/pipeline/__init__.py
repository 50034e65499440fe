"""The steps that every request takes: route, authenticate, limit, decode, handle, respond."""
