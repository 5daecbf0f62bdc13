"""The names of a package whose modules are imported at the first use of a name (PEP 562)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence


def lazy_names(package: str, modules: Sequence[str]) -> Callable[[str], object]:
    """Return a function ``__getattr__`` for the package ``package``, which imports a module when a name of the module
    is first used. The name is taken from the first of ``modules`` that has the name.

    ``modules`` are the names of modules in ``package``, in the order of the search. A module must stand before the
    modules that import it. If a name is that of a module in the package, the function returns this module, and imports
    no other one for the search. The function raises AttributeError for a name that no module has, and for a name that
    begins with an underscore.
    """

    def find(name: str) -> object:
        if not name.startswith("_"):
            # Without this, "from package import module" would search all modules for the name first.
            if importlib.util.find_spec(f"{package}.{name}"):
                return importlib.import_module(f"{package}.{name}")
            for module in modules:
                found = importlib.import_module(f"{package}.{module}")
                if hasattr(found, name):
                    return getattr(found, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
