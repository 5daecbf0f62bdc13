"""The names of a package whose modules are imported at the first use of a name (PEP 562)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence


def lazy_names(package: str, modules: Sequence[str]) -> Callable[[str], object]:
    """Return the function ``__getattr__`` of a package, which takes a name from the first of its modules that has it.

    ``modules`` are the names of modules in ``package``, in the order of the search. A module must stand before the
    modules that import it. The name of any module in the package stands for this module, and imports no other one. The
    function raises AttributeError for a name that no module has, and for a name that begins with an underscore.
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
