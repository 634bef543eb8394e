"""What several subcommands need: names, words, files, output, progress."""
