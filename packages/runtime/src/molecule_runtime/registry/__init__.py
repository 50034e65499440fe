"""Which adapters there are."""
