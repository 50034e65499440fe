"""The only way out of the house: which addresses may be called, and connections to exactly those."""
