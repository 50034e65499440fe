"""The bearer check of the transcript route."""

import hmac


def transcript_authorized(expected: str | None, header: str | None) -> bool:
    """Whether the header is exactly `Bearer <expected>`, compared in constant time.

    Without an expected token nobody may read: it is never a wildcard.
    """
    if not expected or not header:
        return False
    # Surrogates of a header that is no UTF-8 must not make the comparison raise.
    actual, required = (text.encode("utf-8", "surrogatepass") for text in (header, f"Bearer {expected}"))
    return hmac.compare_digest(actual, required)
