"""A headless Chromium for the tests of the page, and what the tests ask of it.

Debian's packages `chromium` and `chromium-driver`, driven by Selenium.
"""

import base64
import contextlib
import pathlib
import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

WIDTH, HEIGHT = 1280, 800
PATIENCE = 60  # seconds until a page that does not come is given up


def missing():
    """What is not installed; empty if the tests can run."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", "--disable-dev-shm-usage",
                         "--force-device-scale-factor=1", "--font-render-hinting=none", f"--window-size={WIDTH},{HEIGHT}"):
            options.add_argument(argument)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.resize(WIDTH, HEIGHT)

    def close(self):
        self.driver.quit()

    def resize(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def prefer(self, scheme, media=""):
        self.command("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path, address=""):
        """A page from a file, read and drawn. The console is empty before."""
        self.driver.get("about:blank")
        self.console()
        self.driver.get(pathlib.Path(path).as_uri() + address)
        self.wait("typeof app !== 'undefined' && app.ready > 0 || document.querySelector('.fatal')")
        self.settle()

    def wait(self, condition):
        WebDriverWait(self.driver, PATIENCE, poll_frequency=0.02).until(lambda _: self.run(f"return Boolean({condition})"))

    def settle(self):
        """After the next frames everything that was asked to be drawn is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; let frames = 4; const next = () => (--frames ? requestAnimationFrame(next) : setTimeout(done, 0)); next()")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def go(self, address):
        self.run("location.hash = arguments[0]", address)
        self.settle()

    def console(self):
        """What the page has written to the console, complaints of the browser included."""
        return [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def key(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()
        self.settle()

    def click(self, selector, nth=0):
        self.elements(selector)[nth].click()
        self.settle()

    def click_at(self, selector, x, y):
        """A click at a place of an element, counted from its corner."""
        left, top = self.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.x, b.y]", selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + y, clickCount=1,
                         button="none" if kind == "mouseMoved" else "left")
        self.settle()

    def wheel_at(self, selector, x, y, delta):
        left, top = self.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.x, b.y]", selector)
        self.command("Input.dispatchMouseEvent", type="mouseWheel", x=left + x, y=top + y, deltaX=0, deltaY=delta)
        self.settle()

    def type(self, selector, text):
        field = self.elements(selector)[0]
        field.clear()
        field.send_keys(text)
        self.settle()

    def elements(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent ?? null", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def picture(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    def printed(self):
        """The page as a PDF."""
        return base64.b64decode(self.command("Page.printToPDF", printBackground=True)["data"])


@contextlib.contextmanager
def browser():
    made = Browser()
    try:
        yield made
    finally:
        made.close()
