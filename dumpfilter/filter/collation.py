"""How names compare in wild patterns."""

from __future__ import annotations


def general_ci(character: str) -> str:
    """The weight of one character in utf8mb3_general_ci, as a character."""
    return character.upper() if len(character.upper()) == 1 else character
