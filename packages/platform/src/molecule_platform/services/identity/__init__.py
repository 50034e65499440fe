"""Authentication, authorisation, members, organisations and tokens."""
