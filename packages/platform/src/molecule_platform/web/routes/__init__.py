"""Route rows, schemas and handlers, one module per noun."""
