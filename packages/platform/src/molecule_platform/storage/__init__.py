"""State on disk: SQLAlchemy Core tables and verbs, one module per noun, for SQLite and PostgreSQL."""
