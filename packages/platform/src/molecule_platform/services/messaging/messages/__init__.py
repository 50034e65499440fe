"""Messages from acceptance to outcome."""
