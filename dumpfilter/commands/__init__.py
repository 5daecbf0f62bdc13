"""The sub-commands of ``dumpfilter``. The module of a sub-command reads the options, calls another package and
prints.

Input: the command line and option files. Output: tables, JSON, exit codes. The package may import every other
package.
"""
