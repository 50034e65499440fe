"""The outside of the house as one table: every route, who may call it, and the shape of its request.

Also the short way from ASGI to a handler and back, which the CRUD routes and the hot paths share.
"""
