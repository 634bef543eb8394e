"""The parts of a function's state, each with the functions of the engine that need only it."""
