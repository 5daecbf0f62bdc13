"""``python -m dumpfilter`` is the ``dumpfilter`` command."""

from dumpfilter.cli import main

if __name__ == "__main__":
    main()
