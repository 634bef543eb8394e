"""Programs that count inside the guest; they need only its Python and this directory's modules.

The host passes a program's text to ``python3 -c`` with the modules as arguments. The program
reports in lines on standard output and ends at the end of its standard input.
"""

from __future__ import annotations

from importlib import resources

_START = """
import contextlib, sys, types
for name, text in {texts!r}.items():
    sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), sys.modules[name].__dict__)
shared, own = map(sys.modules.get, {names!r})
with contextlib.suppress(KeyboardInterrupt):
    try:
        own.main(sys.argv[1:])
    except shared.CoverageError as failure:
        shared.tell(error=str(failure))
"""


def program(*names: str) -> str:
    """Return the text for ``python3 -c`` that runs ``main`` of the last named file in the guest.

    ``names`` are files of this directory in import order; modules.py precedes them. A CoverageError
    becomes a line with ``error``.
    """
    parts = ("modules", *names)
    texts = {
        f"{__name__}.{one}": resources.files(__name__).joinpath(f"{one}.py").read_text()
        for one in parts
    }
    return _START.format(texts=texts, names=(f"{__name__}.modules", f"{__name__}.{names[-1]}"))
