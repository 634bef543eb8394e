"""A command that runs in a guest, for the subcommands that run one, and what became of it."""
