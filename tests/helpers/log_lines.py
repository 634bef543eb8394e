"""Lines of the log as they are written, behind all filters."""

import logging
from contextlib import contextmanager


class Lines(logging.Handler):
    """Keeps what is written."""

    def __init__(self, level):
        super().__init__(level)
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


@contextmanager
def written(level=logging.NOTSET):
    """Yield the handler that keeps the lines from ``level`` on while the body runs."""
    handler = Lines(level)
    logging.getLogger().addHandler(handler)
    try:
        yield handler
    finally:
        logging.getLogger().removeHandler(handler)
