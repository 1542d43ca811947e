"""The script for a lent machine, on the CPU and with a handful of cases."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.record import read
from selftests.runs import ROOT

FILE = ROOT / "scripts" / "ten_minutes.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("ten_minutes", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_records_come_back(tmp_path: Path) -> None:
    few = ("-n0", "-k", "test_ormqr and /5x3/single/", "-p", "no:cacheprovider")
    command = [sys.executable, str(FILE), "--device=cpu", f"--results={tmp_path}", *few]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(",")[0] for line in done.stdout.splitlines()[:-1]] == [
        "quick: status 0",
        "standard: status 0",
    ]
    for name in ("quick", "standard"):
        record = read(tmp_path / f"{name}.xml")
        assert record.properties["profile"] == name
        assert record.outcomes
        assert "worst margin" in (tmp_path / f"{name}.txt").read_text()


def test_cuda_is_run_with_every_library(script: Any) -> None:
    runs = list(script.plan("cuda:1"))
    assert [(run.profile, run.library) for run in runs] == [
        ("quick", ""),
        ("quick", "cusolver"),
        ("quick", "magma"),
        ("standard", ""),
    ]
    assert len({run.name for run in runs}) == len(runs)
    assert sum(run.share for run in runs[:-1]) < 0.5


def test_the_library_reaches_the_run(script: Any, tmp_path: Path) -> None:
    """A plug-in that describes its device by what is in the environment."""
    plugin = tmp_path / "told.py"
    plugin.write_text(
        "import os\nfrom devices.cpu import Cpu as Host\n"
        "class Told(Host):\n    name = 'told'\n    type = 'cpu'\n"
        "    def devices(self):\n        return ['told']\n"
        "    def describe(self, device):\n"
        "        return {'name': 'told', 'linalg': os.environ['CONFORMANCE_LINALG']}\n"
    )
    options = ["--device=told", f"--device-plugin={plugin}", "-n0", "-k", "ormqr and /5x3/single/"]
    run = script.Run("told", "quick", "magma")
    assert script.perform(run, 240.0, tmp_path, options) == 0
    assert read(tmp_path / "told.xml").properties["device.told.linalg"] == "magma"


def test_what_is_missing_is_named(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert script.missing(["numpy>=1.26", "no-such-package>=2"]) == ["no-such-package>=2"]
    assert script.missing(script.required()) == []
    monkeypatch.setattr(script, "required", lambda: ["no-such-package>=2"])
    monkeypatch.setattr(sys, "argv", ["ten_minutes.py", f"--results={tmp_path}"])
    assert script.main() == 2
    assert "not installed: no-such-package>=2; see --wheels" in capsys.readouterr().err
