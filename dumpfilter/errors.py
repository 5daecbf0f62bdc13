"""The errors of the product, under the name by which programs import them."""

from dumpfilter.base.errors import *  # noqa: F403 (every error is public)
