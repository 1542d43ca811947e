"""Show the devices that ``--device`` can name, and why the others are not there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import devices
from conformance.cli._common import add_device_plugins
from devices._errors import first_line

help = "show the devices, and why others are absent"

COLUMNS = ("device", "name", "memory", "driver", "libraries", "dtypes", "svd drivers", "captures")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    add_device_plugins(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table. A plug-in that cannot be loaded is a usage error."""
    try:
        backends = devices.discover(arguments.device_plugin)
    except devices.DeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows: list[tuple[str, ...]] = [COLUMNS]
    absent = []
    for name, backend in backends.items():
        reason = backend.absent()
        if reason is not None:
            absent.append((name, reason))
            continue
        rows += [row(backend, device) for device in backend.devices()]
    print(table(rows))
    if absent:
        print("\nabsent:")
        print(table([(f"  {name}", reason) for name, reason in absent]))
    return 0


def row(backend: devices.Backend, device: str) -> tuple[str, ...]:
    """What the table says of one device; an error in asking it is said in its place."""
    try:
        devices.set_up(backend)
        facts = backend.describe(device)
        dtypes = backend.dtypes_on(device)
        drivers = backend.svd_drivers(device)
    except Exception as error:
        return (device, first_line(error), *["-"] * (len(COLUMNS) - 2))
    return (
        device,
        *(facts.get(key) or "-" for key in ("name", "memory", "driver", "libraries")),
        " ".join(dtypes) or "-",
        " ".join(drivers) or "-",
        " ".join(backend.captures) or "-",
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    )
