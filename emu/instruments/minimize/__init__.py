"""The search for a smallest part of something that still shows a failure."""
