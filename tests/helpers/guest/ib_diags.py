"""What infiniband-diags prints: names, dots, values."""


def fields(text, name):
    """The values behind a name, from the text's beginning to its end."""
    lines = (line.strip().partition("..") for line in text.splitlines())
    return [value.lstrip(".") for found, _, value in lines if found.rstrip(":") == name]
