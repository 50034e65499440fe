"""HTTP/1.1 from the socket to an exchange and back."""
