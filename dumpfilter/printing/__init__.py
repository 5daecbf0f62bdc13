"""Binlogs as text that a client can run again."""

from dumpfilter.printing.load_files import LoadFiles
from dumpfilter.printing.text import TextPrinter

__all__ = ["LoadFiles", "TextPrinter"]
