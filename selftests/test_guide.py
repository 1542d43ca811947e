"""The guide docs/your-device.md: what it tells to write works as it stands on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.record import read
from selftests.commands import command
from selftests.runs import ROOT
from selftests.sim import Sim

GUIDE = (ROOT / "docs" / "your-device.md").read_text()
#: The blocks of each language, in the order of the page.
PYTHON, TOML = (
    re.findall(rf"```{name}\n(.*?)```", GUIDE, re.DOTALL) for name in ("python", "toml")
)
MADE_UP, BACKEND, PLAIN, REFUSALS, ISSUES, LIMITS = PYTHON

needs_sim = pytest.mark.skipif(Sim().absent() is not None, reason=str(Sim().absent()))


@pytest.fixture
def tub(tmp_path: Path) -> Path:
    """The plug-in as it is at the end of the page."""
    package = tmp_path / "tub_conformance"
    package.mkdir()
    path = "from pathlib import Path\n"
    (package / "backend.py").write_text("\n".join((path + BACKEND, REFUSALS, ISSUES, LIMITS)))
    (tmp_path / "torch_tub.py").write_text(MADE_UP)
    for name, text in zip(("known_issues.toml", "tolerances.toml"), TOML[:2], strict=True):
        (package / name).write_text(text)
    return package


def run(tub: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tub.parent)}
    environment["COLUMNS"] = "200"
    return subprocess.run(
        [sys.executable, "-m", *arguments, f"--device-plugin={tub / 'backend.py'}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@needs_sim
def test_the_device_is_shown_as_on_the_page(tub: Path) -> None:
    lines = run(tub, "conformance", "devices").stdout.splitlines()
    [shown] = [line for line in lines if line.startswith("tub")]
    assert shown.split() == next(line for line in GUIDE.splitlines() if line[:4] == "tub:").split()


CASES = {
    "tests/test_qr.py::test_geqrf[tub:0/geqrf.packed/float32/random/5x3/single/row-major/eager]": (
        "unsupported"
    ),
    "tests/test_qr.py::test_qr[tub:0/qr.reduced/float32/random/5x3/single/row-major/eager]": (
        "fallback"
    ),
    "tests/test_svd.py::test_svd[tub:0/svd.full/float32/zero/33x33/single/row-major/eager]": (
        "known"
    ),
    "tests/test_eigh.py::test_eigh[tub:0/eigh.lower/float32/random/8x8/single/row-major/eager]": (
        "pass"
    ),
}


@needs_sim
def test_each_kind_of_failure_gets_its_verdict(tub: Path) -> None:
    xml = f"--junitxml={tub / 'tub.xml'}"
    done = run(
        tub,
        "pytest",
        "--device=tub",
        "--profile=quick",
        "-n0",
        xml,
        "-p",
        "no:cacheprovider",
        *CASES,
    )
    assert done.returncode == 0, done.stdout
    verdicts = {outcome.case: outcome.verdict for outcome in read(tub / "tub.xml").outcomes}
    assert verdicts == {node[node.index("[") + 1 : -1]: verdict for node, verdict in CASES.items()}


def test_its_files_are_clean(tub: Path) -> None:
    cases = tub / "cases.txt"
    cases.write_text("tub:0/svd.full/float32/zero/33x33/single/row-major/eager\n")
    known = ("--known-issues", tub / "known_issues.toml")  # the suite's own name other cases
    assert command("lint", "--device-plugin", tub / "backend.py", "--cases", cases, *known) == 0


def test_its_other_backend_is_one(tmp_path: Path) -> None:
    file = tmp_path / "plain.py"
    file.write_text(PLAIN)
    command_line = [sys.executable, "-m", "conformance", "devices", f"--device-plugin={file}"]
    done = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "tub:0" in done.stdout


def test_every_command_on_the_page_is_one() -> None:
    """Modules, options and files that the page's shell blocks name exist."""
    shell = "".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL))
    commands = set(re.findall(r"python -m conformance (\w+)", shell))
    assert commands == {"devices", "report", "explain", "lint", "compare", "tune"}
    assert all((ROOT / "conformance" / "cli" / f"{name}.py").exists() for name in commands)
    links = re.findall(r"\]\(([^)#]+)\)", GUIDE)
    assert links
    assert all((ROOT / "docs" / link).exists() for link in links if "://" not in link)
