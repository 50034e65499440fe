"""Personal data in answers: card numbers, social security numbers, mail addresses."""

import re

from molecule_wire.redaction.rules import Rule

CARD_BEGUN = re.compile(r"(?<![\w.])[2-6](?:[ -]?\d){0,18}[ -]?\Z", re.ASCII)
"""The start of a card number at the end of a text."""
CARD_CHARACTERS = 40

_CARD_PREFIX = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]|2[2-7])\d{14}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[68]\d)\d{11}"  # Diners Club
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}",  # UnionPay
    re.ASCII,
)


def is_card(text: str) -> bool:
    """Return True for a card number (known issuer, Luhn sum), with spaces or hyphens between the digits."""
    digits = text.replace(" ", "").replace("-", "")
    if not _CARD_PREFIX.fullmatch(digits):
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    total = sum(map(int, digits[-1::-2])) + sum(value - 9 if value > 9 else value for value in doubled)
    return total % 10 == 0


EMAIL = Rule(
    "EMAIL",
    "mail address",
    r"(?<![\w.+%-])[\w.+%-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,57})\.[A-Za-z0-9]",
    re.ASCII,
    words=("@",),
    rest=re.compile(r"(?:[A-Za-z0-9-]|\.(?=[A-Za-z0-9-]))*", re.ASCII),
    type="email",
)
SSN = Rule(
    "SSN",
    "social security number",
    r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])",
    re.ASCII,
    gate=re.compile(r"[0-9]{3}-[0-9]{2}-[0-9]{4}"),
    type="ssn",
)
CREDIT_CARD = Rule(
    "CREDIT_CARD",
    "card number",
    r"(?<![\w.])[2-6](?:[ -]?\d){12,18}(?![ -]?\d)(?!\w)",
    re.ASCII,
    gate=re.compile(r"(?:[0-9][ -]?){12}[0-9]"),
    is_secret=is_card,
    type="credit_card",
)
