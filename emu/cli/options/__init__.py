"""Options that several subcommands have."""
