"""Running a command of ``python -m conformance`` inside a test."""

from __future__ import annotations

import argparse
import importlib


def command(name: str, *arguments: object) -> int:
    """The exit status of a command; wrong usage ends in SystemExit, as on the command line."""
    module = importlib.import_module(f"conformance.cli.{name}")
    parser = argparse.ArgumentParser(prog=name)
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args([str(argument) for argument in arguments]))
    return status
