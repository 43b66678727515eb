"""Formulas as MathML, which browsers draw themselves: no script, no font and nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError


def _visit(translator: Any, node: nodes.math | nodes.math_block) -> None:
    block = isinstance(node, nodes.math_block)
    tex = re.sub(r"(\\[dt]?frac)\s*(\d)(\d)", r"\1{\2}{\3}", node.astext())  # TeX needs no braces there, docutils does
    try:
        made = tex2mathml(tex, as_block=block)
    except MathError as error:
        raise ExtensionError(
            f"{translator.builder.current_docname}: {node.astext()!r} is no formula: {error}"
        ) from None
    translator.body.append(f'<div class="formula" tabindex="0">{made}</div>' if block else made)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_visit, None), (_visit, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
