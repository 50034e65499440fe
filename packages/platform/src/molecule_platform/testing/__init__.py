"""Shipped test doubles and private real servers. The product never imports this."""
