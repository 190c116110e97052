"""One browser for all tests of the page; without Chromium they are skipped, and in CI that is an error."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def chromium():
    try:
        import browser
        absent = browser.missing()
    except ImportError as error:
        absent = [str(error)]
    if absent:
        message = f"the page cannot be tried without {', '.join(absent)}; scripts/setup installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with browser.browser() as made:
        yield made


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages of the command, each made once."""
    import real_pages

    command = real_pages.command()
    if not command:
        message = "CLEAVE_COMMAND names no command with `report`"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    return real_pages.RealPages(command, tmp_path_factory.mktemp("pages"))


@pytest.fixture
def page(chromium, tmp_path):
    """Opens the page of a report; at the end of a test nothing may be on the console."""
    import make_report

    chromium.prefer("light")
    chromium.resize(1280, 800)

    def show(document, address=""):
        path = tmp_path / "page.html"
        path.write_text(make_report.page(document), encoding="utf-8")
        chromium.open(path, address)
        return chromium

    yield show
    assert chromium.console() == []
