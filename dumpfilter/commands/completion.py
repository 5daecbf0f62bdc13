"""The values that a shell completes. The shell runs the command anew for each completion."""

from __future__ import annotations


def complete_variant(incomplete: str) -> list[str]:
    """Return the names of a simulation's variants that begin with the typed text."""
    from dumpfilter.simulation.results import Variant

    return [variant.value for variant in Variant if variant.value.startswith(incomplete)]
