"""``python -m dumpfilter`` is the ``dumpfilter`` command. This file is also the script for spark-submit."""

import sys

if not __package__:
    # A script's own folder comes first in sys.path. Its modules (sql, filter, …) must not hide other packages.
    del sys.path[0]

import signal


def main() -> None:
    """Run the command. Ctrl-C during its imports ends the process at once, which shells report as 130."""
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dumpfilter import cli

    if is_heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
