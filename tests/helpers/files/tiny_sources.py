"""A small package that mypyc compiles in seconds."""

from __future__ import annotations

from emu.compiled.sources import Sources

FILES = {
    "tiny/__init__.py": "",
    "tiny/plain.py": "VALUE = 3\n",
    "tiny/sub/__init__.py": (
        "import pkgutil\n\nNAMES = [module.name for module in pkgutil.iter_modules(__path__)]\n"
    ),
    "tiny/sub/add.py": (
        "from tiny.plain import VALUE\n\n\ndef add(number: int) -> int:\n"
        "    return number + VALUE\n"
    ),
    "tiny/sub/left_out.py": "from tiny.sub.add import add\n\nFOUR = add(1)\n",
}


def tiny_sources(root):
    """Write the package below ``root``."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tiny_sources_of(root)


def tiny_sources_of(root):
    """The package that :func:`tiny_sources` has written."""
    return Sources(root, ("tiny/sub",), (), ("tiny/sub/left_out.py",), ("tiny",), "tiny_compiled")
