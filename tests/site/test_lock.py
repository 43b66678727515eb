"""The lock of what the site is built with, which only `make docs` installs."""

from __future__ import annotations

import test_package


def test_the_lock_has_what_the_site_is_built_with_and_nothing_else():
    test_package.check_lock("requirements-docs.lock", "docs")
