"""A policy's functions, called with numbers by name as the contract has it: each takes what it names."""

from __future__ import annotations


def call(policy, function="index", **numbers):
    """What one of a policy's functions gives; the policy's constants are known."""
    numbers |= dict(zip(policy.constant_names(), policy.constants(), strict=True))
    return getattr(policy, function)(*(numbers[name] for name in policy.named_by(function)))
