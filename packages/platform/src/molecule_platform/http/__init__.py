"""The CRUD routes, one module per noun: read the request, call a service, shape the reply, decide nothing."""
