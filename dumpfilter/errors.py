"""The public name of dumpfilter's exceptions, which :mod:`dumpfilter.base.errors` defines."""

from dumpfilter.base.errors import *  # noqa: F403 (every error is public)
