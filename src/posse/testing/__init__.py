"""Contract checks that any policy must pass: yours too.

    >>> import posse, posse.testing
    >>> posse.testing.check_policy(posse.IndTS())

Each check is a function of a policy that raises AssertionError with what went wrong; `policy_checks()` lists them
for parametrised tests.
"""

from posse.testing.policies import check_policy, example, policy_checks

__all__ = ["check_policy", "example", "policy_checks"]
