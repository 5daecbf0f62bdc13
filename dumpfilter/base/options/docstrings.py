"""Reading of attribute docstrings: the string literals after a class's attributes. They are the help texts of options
and metrics.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def attribute_texts(body: type) -> dict[str, str]:
    """Return the help texts of a class's attributes, by attribute name.

    The help text of an attribute is the string literal after it in the source of the class ``body``, as one line.
    Attributes without such a literal, and attributes of base classes, are left out.
    """
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(body))).body
    assert isinstance(found, ast.ClassDef)
    texts = {}
    for attribute, after in pairwise(found.body):
        match attribute, after:
            case (
                ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]),
                ast.Expr(ast.Constant(str(text))),
            ):
                texts[name] = " ".join(text.split())
    return texts
