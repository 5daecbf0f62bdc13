"""Conversion of floating-point numbers to the texts that MySQL shows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_PLAIN_DIGITS = 15
"""The limit of digits before the point, and of zeros after it, up to which a number is written without an exponent
(``MAX_DECPT_FOR_F_FORMAT``).
"""


def plain_number(text: str) -> str:
    """Return a number in the form that MySQL's ``my_gcvt`` chooses, without needless zeros.

    ``text`` is the number in decimal or scientific form, as Python and numpy print it.

    >>> plain_number("1e+06"), plain_number("1.5"), plain_number("1e-05"), plain_number("1e22"), plain_number("-0.0")
    ('1000000', '1.5', '0.00001', '1e22', '-0')
    """
    mantissa, _, exponent = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(digits) - len(fraction)
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0"
    if point < 1 - _PLAIN_DIGITS or (point > _PLAIN_DIGITS and len(digits) <= point):
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def number_texts(values: npt.NDArray[np.floating]) -> list[str]:
    """Return the shortest texts that read back as the same numbers, in the form of :func:`plain_number`.

    >>> number_texts(np.array([1.0, 0.1, 1e22, 1e-5])), number_texts(np.array([0.1, 16777216], np.float32))
    (['1', '0.1', '1e22', '0.00001'], ['0.1', '16777216'])
    """
    texts: list[str] = pc.cast(pa.array(values), pa.string()).to_pylist()
    # Most texts differ from MySQL's in nothing but a needless ".0". Those with an exponent may differ in their form.
    return [plain_number(text) if "e" in text else text.removesuffix(".0") for text in texts]
