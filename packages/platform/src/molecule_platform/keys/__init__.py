"""What the house keeps under lock. The only importer of `cryptography`."""
