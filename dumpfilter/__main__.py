"""``python -m dumpfilter`` is the ``dumpfilter`` command. This file is also the script for spark-submit."""

import sys

if not __package__:
    # A script's own folder comes first in sys.path. Its modules (sql, filter, …) must not hide other packages.
    del sys.path[0]

from dumpfilter.cli import main

if __name__ == "__main__":
    main()
