"""Progress of long work: through `logging` (the logger "cleave"), and as a line in a terminal."""

import contextlib
import logging
import sys
import time

logger = logging.getLogger("cleave")
QUIET_SECONDS = 1.0  # work that takes less shows nothing in a terminal


def with_bar(text, width=20):
    """[=====               ]  25 % relu, of " 25 % relu"; a text without a share stays as it is."""
    share, sign, rest = text.partition("%")
    if not sign or not share.strip().isdigit():
        return text
    done = width * min(100, int(share)) // 100
    return f"[{'=' * done}{' ' * (width - done)}] {share.strip():>3} %{rest}"


class TerminalLine:
    """One line that is written over, on standard error."""

    def __init__(self, stream):
        self.stream, self.started, self.width = stream, time.monotonic(), 0

    def __call__(self, text):
        seconds = time.monotonic() - self.started
        if seconds < QUIET_SECONDS:
            return
        line = f"{seconds:5.1f} s  {with_bar(text)}"[:100]
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)

    def close(self):
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()


@contextlib.contextmanager
def told(wish):
    """A function that takes lines. `wish` is True, False, a function, or None: a line if standard error is a terminal."""
    if callable(wish):
        yield wish
        return
    line = TerminalLine(sys.stderr) if wish or (wish is None and sys.stderr.isatty()) else None

    def tell(text):
        logger.debug(text)
        if line:
            line(text)
    try:
        yield tell if line or logger.isEnabledFor(logging.DEBUG) else None
    finally:
        if line:
            line.close()
