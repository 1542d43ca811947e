"""``lint``: entries that never apply, are shadowed, or are past."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import pytest

import devices
from selftests import records
from selftests.commands import command

PROJECT = Path(__file__).resolve().parent.parent
ISSUE = """[[issue]]
url = "https://example.org/1"
backend = "mps"
torch = ">=2.14,<2.15"
what = "wrong"
cases = { operation = "svd" }
"""

Lint = Callable[..., tuple[int, str]]


@pytest.fixture
def lint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lint:
    def run(limits: str = "", issues: str = "", *arguments: object) -> tuple[int, str]:
        """Lint the project's limits followed by others, and these issues."""
        (tmp_path / "limits.toml").write_text(limits)
        (tmp_path / "known.toml").write_text(issues)
        files = [PROJECT / "tolerances.toml", tmp_path / "limits.toml"]
        options = [option for file in files for option in ("--tolerances", file)]
        options += ["--known-issues", tmp_path / "known.toml"]
        status = command("lint", *options, *arguments)
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def test_own_files_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("lint") == 0
    assert capsys.readouterr().out.startswith("0 findings in ")


@pytest.mark.parametrize(
    ("limits", "line", "message"),
    [
        ("[cqu.svd]\nvalues = 3\n", 2, "never applies: there is no backend 'cqu'"),
        (
            "[mps.svd]\nvalues = 3\n" + "".join(
                f"[mps.svd.{dtype}]\nvalues = 2\n"
                for dtype in ("float32", "float64", "complex64", "complex128")
            ),
            2,
            "more particular entries of its section cover it",
        ),
        ("[mps.svd]\nvalues = 50\n", 2, "repeats tolerances.toml:"),
        (
            '[mps.svd]\nvalues = { limit = 3, reason = "r" }\n',
            2,
            "has a reason but no source",
        ),
    ],
)  # fmt: skip
def test_limits(lint: Lint, limits: str, line: int, message: str) -> None:
    status, text = lint(limits)
    assert status == 1
    (finding, summary) = text.splitlines()
    assert f"limits.toml:{line}: " in finding
    assert message in finding
    assert summary.startswith("1 findings in ")


def test_plugin_backend_is_known(lint: Lint) -> None:
    assert lint("[npu.svd]\nvalues = 3\n", "", "--backend", "npu")[0] == 0


def test_what_a_plugin_ships(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from pathlib import Path\n\nfrom devices.base import Backend\n\n\n"
        'class Mine(Backend):\n    name = "npu"\n\n    def devices(self):\n        return []\n\n'
        "    def tolerances(self):\n"
        '        return Path(__file__).with_name("limits.toml")\n'
    )
    limits = tmp_path / "limits.toml"
    (tmp_path / "none.toml").write_text("")
    brief = ("--known-issues", tmp_path / "none.toml", "--cases", tmp_path / "none.toml")
    limits.write_text("[npu.svd]\nvalues = 3\n")
    assert command("lint", "--device-plugin", plugin, *brief) == 0
    limits.write_text("[npu.svd]\nvalues = 50\n")
    assert command("lint", "--device-plugin", plugin, *brief) == 1
    assert "limits.toml:2: " in capsys.readouterr().out
    installed = tmp_path / "mine_installed.py"
    installed.write_text(plugin.read_text())
    point = importlib.metadata.EntryPoint("npu", "mine_installed:Mine", devices.GROUP)
    monkeypatch.setattr(devices, "entry_points", lambda group: [point])
    monkeypatch.syspath_prepend(str(tmp_path))
    for given in ((), ("--device-plugin", installed)):  # installed, and given as a file as well
        assert command("lint", *given, *brief) == 1
        assert "limits.toml:2: " in capsys.readouterr().out
    assert command("lint", "--device-plugin", tmp_path / "no.py") == 2
    assert "no.py" in capsys.readouterr().err


def test_loosening_without_reason(lint: Lint) -> None:
    status, text = lint("[mps.svd]\nvalues = 70\n")
    assert status == 2
    assert "limits.toml:2: mps.svd.values: 70 is looser than 50" in text


def test_gaps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "limits.toml").write_text(
        "[ceiling]\nvalues = 9\n[default]\nvalues = 3\norder = 0\n"
    )
    assert command("lint", "--tolerances", tmp_path / "limits.toml") == 1
    text = capsys.readouterr().out
    assert "no [default] limit for reconstruction of svd float32" in text
    assert "no ceiling for order of svd float32" in text
    assert "for values" not in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"mps"', '"mpss"', "there is no backend mpss"),
        (">=2.14,<2.15", "<2.9", "its torch range has passed"),
        ("svd", "svdd", "no operation matches 'svdd'"),
        ('"svd"', '"qr", dtype = "float8"', "no dtype matches 'float8'"),
        ("}", '}\nmeasures = ["residual"]', "residual is no measure of svd"),
        ("}", "}\nreport_only = true", "report_only, but no note says"),
    ],
)
def test_issues(lint: Lint, old: str, new: str, message: str) -> None:
    status, text = lint("", ISSUE.replace(old, new))
    assert status == 1
    assert f"known.toml:1: https://example.org/1: {message}" in text
    assert lint("", ISSUE) == (0, lint("", ISSUE)[1])


def test_issue_without_url(lint: Lint) -> None:
    status, text = lint("", ISSUE.replace('url = "https://example.org/1"\n', ""))
    assert status == 2
    assert "known.toml:1: issue[0]: has no url" in text


def test_repeated_issue(lint: Lint) -> None:
    assert "known.toml:7: https://example.org/1: repeats known.toml:1" in lint("", ISSUE * 2)[1]


def test_patterns_that_match_no_case(lint: Lint, tmp_path: Path) -> None:
    run = records.write(tmp_path / "run.xml", records.healthy(0, 3))
    listed = tmp_path / "ids.txt"
    listed.write_text(records.case(1, operation="qr.r") + "\n\n")
    both = ("--cases", run, "--cases", listed)
    assert lint("", ISSUE, *both)[0] == 0
    assert lint("", ISSUE.replace('"svd"', '"qr", variant = "r"'), *both)[0] == 0
    status, text = lint("", ISSUE.replace("svd", "eigh"), *both)
    assert status == 1
    assert "a pattern matches no case" in text
    assert lint("", ISSUE, "--cases", tmp_path / "no.txt")[0] == 2
