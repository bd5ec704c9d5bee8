"""The keys that a person labels with, in the terminal and on the page."""

import string

COMMANDS = {"s": "skip", "a": "ambiguous", "n": "no class fits", "u": "undo", "q": "quit"}
OF_THE_PAGE = "gm"  # hide the guess, write a note
CLASS_KEYS = "".join(
    key
    for key in string.digits[1:] + string.ascii_lowercase + string.ascii_uppercase
    if key not in COMMANDS and key not in OF_THE_PAGE
)
