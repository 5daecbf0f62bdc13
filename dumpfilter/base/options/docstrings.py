"""Reading of attribute docstrings: the string literals after a class's attributes. They are the help texts of options
and metrics.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from itertools import pairwise


def attribute_texts(body: type) -> dict[str, str]:
    """Return the help texts of a class's attributes, by attribute name.

    The help text of an attribute is the string literal after it in the source of the class ``body``, as one line.
    Attributes without such a literal, and attributes of base classes, are left out.
    """
    texts = {}
    for attribute, after in pairwise(_classes(body.__module__)[body.__name__].body):
        match attribute, after:
            case (
                ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]),
                ast.Expr(ast.Constant(str(text))),
            ):
                texts[name] = " ".join(text.split())
    return texts


@functools.cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module's source by name. The source is parsed once for all classes."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
