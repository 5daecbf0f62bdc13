"""The texts that stand after the attributes of a class, which declare an option or a metric together with its help."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def attribute_texts(body: type) -> dict[str, str]:
    """Return the string literal after each attribute in the source of a class, as one line. Bases do not count."""
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
