"""Which of many similar cases are run."""

import os


def some(cases, every=2):
    """All of them if CI=true; otherwise each `every`th, so that `make test` takes about a quarter of an hour."""
    return list(cases) if os.environ.get("CI") == "true" else list(cases)[::every]
