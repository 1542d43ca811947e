"""How a device's facts are written."""

from __future__ import annotations

import re


def gibibytes(size: int) -> str:
    """A number of bytes as people write it: ``80.0 GiB``."""
    return f"{size / 2**30:.1f} GiB"


#: Words of product names that do not tell one chip from another ...
VENDORS = {"NVIDIA", "AMD", "Intel(R)", "Intel", "Apple"}
VENDORS |= {"Tesla", "GeForce", "Instinct", "Graphics", "Data", "Center", "GPU"}
#: ... and those that do so only together with the next word.
SERIES = {"RTX", "GTX", "TITAN", "Quadro", "Radeon", "RX", "PRO"}
SERIES |= {"Arc", "Arc(TM)", "Pro", "Max", "Flex"}


def chip(name: str) -> str:
    """A product's short name: ``H100`` of 'NVIDIA H100 80GB HBM3'; ``RTX-4090``; ``Arc-B580``."""
    words = [word for word in re.split(r"[\s/]+", name) if word not in VENDORS]
    length = next((i + 1 for i, word in enumerate(words) if word not in SERIES), len(words))
    short = "-".join(words[:length]).replace("(TM)", "").replace("(R)", "")
    return re.sub("-(SXM|PCIE|PCIe).*", "", short) or name
