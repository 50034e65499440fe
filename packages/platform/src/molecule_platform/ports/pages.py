"""The size of a page of rows that carry bodies."""

PAGE_MAX_BYTES = 8 * 1024 * 1024
"""What the bodies of one page may weigh together; a single one may weigh more."""
