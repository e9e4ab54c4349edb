"""What to say of a value that a flag does not take, in our words instead of those of the parser."""

import re
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.words import unknown

CHOICE = re.compile(r"(?:Value error, )?'(?P<value>.*)' is not one of (?P<known>'.*')\.?")
NUMBERS = {"valid integer": "a whole number", "valid number": "a number", "valid float": "a number"}


def in_our_words(error: Any) -> InputError | None:
    """Return the mistake that a parser's BadParameter speaks of; None for one whose words are fine."""
    flag = max(getattr(error.param, "opts", ()), key=len, default="")
    if found := CHOICE.fullmatch(error.message):
        return InputError(unknown(f"value of {flag}", found["value"], re.findall("'([^']*)'", found["known"])))
    expected = next((words for seen, words in NUMBERS.items() if seen in error.message), None)
    if expected is None:
        return None
    details = getattr(error.__cause__, "errors", None)  # what was typed is in the message, or else in its cause
    typed = re.match("'(.*)' is not", error.message)
    value = typed[1] if typed else details()[0]["input"] if details else ""
    return InputError(f"{flag} {value!r}, expected {expected}")
