"""The removal of passwords from statements that a log or another client may see."""

from __future__ import annotations

from itertools import islice

from dumpfilter.binlog.statement.tokens import TokenKind, tokens

SECRET = "<secret>"
"""The text that stands in place of a password, as in MySQL's logs."""

_SHOWN_AND_SECRET = 2
"""The factor by which more tokens are read than characters are shown. Later tokens cannot appear in the cut text."""
_BEFORE_PASSWORD = ("PASSWORD", "IDENTIFIED")
_AFTER_PASSWORD = frozenset({"CHANNEL", "DEFAULT_AUTH", "PLUGIN_DIR", "UNTIL"})


def for_audit_log(text: str, longest: int) -> str:
    """Return a statement as the audit log shows it: without passwords, and cut after ``longest`` characters.

    A statement that is longer loses its comments first, so that a long comment cannot hide the rest.

    >>> for_audit_log("PURGE /* " + "x" * 99 + " */ BINARY LOGS TO 'b.3'", 99)
    "PURGE BINARY LOGS TO 'b.3'"
    """
    if len(text) > longest:
        parts = (text[token.start : token.end] for token in tokens(text))
        # Passwords become shorter. A word takes two characters or more with its space.
        text = " ".join(islice(parts, _SHOWN_AND_SECRET * longest))
    # The audit log cuts the text again, and marks the cut, if the text is one character too long.
    return without_passwords(text, longest + 1)


def without_passwords(text: str, longest: int) -> str:
    """Return a statement with :data:`SECRET` in place of each password, cut to ``longest`` characters.

    Everything after a word that contains PASSWORD counts as the password, up to the next comma or clause. If the
    statement has such a word, its comments are left out, because a comment may repeat the password.

    >>> without_passwords("START REPLICA USER = 'u' PASSWORD = 'it''s' FOR CHANNEL 'c'", 100)
    "START REPLICA USER = 'u' PASSWORD <secret> FOR CHANNEL 'c'"
    >>> without_passwords("CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='not closed", 100)
    'CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD <secret>'
    """
    lower = text.lower()
    if not any(word.lower() in lower for word in _BEFORE_PASSWORD):
        return text[:longest]
    parts: list[str] = []
    length = 0
    in_password = False
    for token in tokens(text):
        comma = token.kind is TokenKind.SYMBOL and token.value == ","
        if in_password and (comma or token.word in _AFTER_PASSWORD):
            in_password = False
            if token.word == "CHANNEL":
                parts.append("FOR")
        if in_password:
            continue
        part = text[token.start : token.end]
        if token.kind is TokenKind.BAD and any(word.lower() in part.lower() for word in _BEFORE_PASSWORD):
            part = SECRET
        parts.append(part)
        if any(word in token.value.upper() for word in _BEFORE_PASSWORD):
            in_password = True
            parts.append(SECRET)
        length += len(part) + 1
        if length > longest:
            break
    return " ".join(parts)[:longest]
