"""Figures as the command writes them (cleave/core/units.cc), written anew from the description in units.h."""


def seconds_text(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e6:.2f} us"


def bytes_text(size):
    if size >= 2**30:
        return f"{size / 2**30:.2f} GiB"
    if size >= 2**20:
        return f"{size / 2**20:.1f} MiB"
    if size >= 2**10:
        return f"{size / 2**10:.1f} KiB"
    return f"{size:.0f} B"


def percent_text(share):
    return f"{100 * share:.1f}%"
