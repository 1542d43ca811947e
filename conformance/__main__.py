"""``python -m conformance COMMAND``: each module of ``conformance.cli`` is a command."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence

from conformance import cli


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 well, 1 a finding, 2 a usage error."""
    names = [m.name for m in pkgutil.iter_modules(cli.__path__) if not m.name.startswith("_")]
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Only the command asked for is imported: most need no torch, whose import takes seconds.
    wanted = given[0].replace("-", "_") if given else ""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=cli.__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in [wanted] if wanted in names else sorted(names):
        module = importlib.import_module(f"{cli.__name__}.{name}")
        command = commands.add_parser(
            name.replace("_", "-"), help=module.help, description=module.__doc__
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args(given)
    try:
        status: int = options.run(options)
    except BrokenPipeError:
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
