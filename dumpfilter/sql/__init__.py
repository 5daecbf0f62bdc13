"""The console's language: statements in, commands out; and what a command answers.

Pure: nothing here does I/O or knows a master or a slave.
"""
