"""Helpers that several commands share: names, words, files, output, progress."""
