"""Printing of binlogs as SQL text that the client program ``mysql`` or ``mariadb`` can run again."""

from dumpfilter.printing.load_files import LoadFiles
from dumpfilter.printing.text import TextPrinter

__all__ = ["LoadFiles", "TextPrinter"]
