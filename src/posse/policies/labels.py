"""Labels of policies: what they name, and which one is meant."""

from collections.abc import Sequence

from posse.policies.base import all_policies


def algorithm(label: str) -> str:
    """The algorithm that a policy's label names: the part before its constants.

    >>> algorithm("RobustAgg-TS(0.15)")
    'RobustAgg-TS'
    """
    return label.split("(")[0].strip() or label


def find_label(which: str, labels: Sequence[str]) -> str:
    """Which of some labels is meant: by itself, or by its algorithm or class if it is the only one of that.

    >>> find_label("RobustAggTS", ["PosseTS", "RobustAgg-TS(0.15)"])
    'RobustAgg-TS(0.15)'
    """
    if which in labels:
        return which
    names = {which, *(cls.name for cls in all_policies() if cls.__name__ == which and cls.name)}
    found = [label for label in labels if algorithm(label) in names]
    if len(found) == 1:
        return found[0]
    if found:
        raise KeyError(f"policy {which!r} may be {' or '.join(map(repr, found))}; give one of these labels")
    raise KeyError(f"no policy {which!r}; there are {', '.join(map(repr, labels))}")
