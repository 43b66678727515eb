"""Labels of policies: what they name, and which one is meant."""

from collections.abc import Sequence

from posse.policies.base import all_policies


def algorithm(label: str) -> str:
    """The algorithm that a policy's label names: the part before its constants.

    >>> algorithm("RobustAgg-TS(0.15)")
    'RobustAgg-TS'
    """
    return label.split("(")[0].strip() or label


def matching_labels(which: str, labels: Sequence[str]) -> list[str]:
    """The label that is meant, if it is one of these; otherwise those of an algorithm or a class.

    >>> matching_labels("RobustAggTS", ["PosseTS", "RobustAgg-TS(0.15)"])
    ['RobustAgg-TS(0.15)']
    """
    if which in labels:
        return [which]
    names = {which, *(cls.name for cls in all_policies() if cls.__name__ == which and cls.name)}
    return [label for label in labels if algorithm(label) in names]


def find_label(which: str, labels: Sequence[str]) -> str:
    """The one label that is meant; an error that names the labels if there is none, or more than one."""
    found = matching_labels(which, labels)
    if len(found) > 1:
        raise KeyError(f"policy {which!r} may be {' or '.join(map(repr, found))}; give one of these labels")
    if not found:
        raise KeyError(f"no policy {which!r}; there are {', '.join(map(repr, labels))}")
    return found[0]
