"""Passes over modules."""

from cleave import _core
from cleave.progress import logger


def pipeline_text(passes):
    """a{x=1 y=2},b of text, or of a list of names and of pairs of a name and its options."""
    if isinstance(passes, str):
        return passes
    texts = []
    for one in passes:
        name, options = (one, None) if isinstance(one, str) else one
        said = " ".join(f"{key.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
                        for key, value in (options or {}).items())
        texts.append(name + (f"{{{said}}}" if said else ""))
    return ",".join(texts)


def run_passes(module, passes):
    """A new module; warnings of passes go to the logger "cleave"."""
    return _core.run_passes(module, pipeline_text(passes), logger.warning)
