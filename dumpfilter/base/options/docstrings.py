"""Reading of attribute docstrings, the string literals after a class's attributes. These literals are the help texts of
options and metrics.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
from itertools import pairwise


@functools.cache
def attribute_texts(body: type) -> dict[str, str]:
    """Return the help texts of a class's attributes, by attribute name.

    The help text of an attribute is the string literal after it in the source of the class ``body``, as one line.
    Attributes without such a literal, and attributes of base classes, are left out.
    """
    texts = {}
    for attribute, after in pairwise(_class_of(body).body):
        match attribute, after:
            case (
                ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]),
                ast.Expr(ast.Constant(str(text))),
            ):
                texts[name] = " ".join(text.split())
    return texts


def _class_of(body: type) -> ast.ClassDef:
    """Return the syntax tree of a class. To parse its whole module would take several times as long."""
    source = inspect.getsource(sys.modules[body.__module__])
    # A class ends before the next line of its own indentation. Its head may end with a bracket on such a line.
    lines = re.search(rf"^( *)class {body.__name__}\b.*?(?=^\1[^\s)]|\Z)", source, re.MULTILINE | re.DOTALL)
    assert lines is not None, f"{body} has no source"
    (found,) = ast.parse(textwrap.dedent(lines[0])).body
    assert isinstance(found, ast.ClassDef)
    return found
