"""Tools around the conformance run.

A command is a module of this package with a docstring, ``help`` (one line),
``add_arguments(parser)`` and ``run(arguments) -> int``, the exit status. Nothing else lists it.
"""
