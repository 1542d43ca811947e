"""How a device's facts are written."""

from __future__ import annotations

import pytest

from devices._facts import chip, gibibytes


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("NVIDIA A100-PCIe", "A100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX-1080"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("NVIDIA TITAN V", "TITAN-V"),
        ("Quadro GV100", "Quadro-GV100"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Radeon RX 7900 XTX", "Radeon-RX-7900"),
        ("Intel(R) Arc(TM) B580 Graphics", "Arc-B580"),
        ("Intel(R) Arc(TM) Pro B50 Graphics", "Arc-Pro-B50"),
        ("Intel Arc A770", "Arc-A770"),
        ("Intel(R) Graphics Iris(R) Xe", "Iris"),
        ("Intel(R) Data Center GPU Max 1550", "Max-1550"),
        ("Intel(R) Data Center GPU Flex 170", "Flex-170"),
        ("Apple M4/M5", "M4"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_chips_have_short_names(name: str, short: str) -> None:
    assert chip(name) == short


def test_memory_is_told_in_binary_units() -> None:
    assert gibibytes(80 * 2**30) == "80.0 GiB"
    assert gibibytes(10**10) == "9.3 GiB"
