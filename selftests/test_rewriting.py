"""The file of limits is edited in place, or not at all."""

from __future__ import annotations

import datetime
import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from conformance.rewriting import Change, replace, rewrite
from conformance.tolerances import Place, Tolerances
from conformance.tomlfiles import ConfigError, parse, read

ODD = """\
# top comment

[default] # hi
values   =  50   # keep me
  [default.svd]
\t reconstruction=50#x
"values" = {limit =  50 , reason= "a" }   # tail
order = 0
# about cpu
[ cpu . svd ]
values = { limit = 3,   date = 2026-01-01 } # c

[cpu.svd.float32.reconstruction] # own table
# inner comment
limit = 3 # three
reason = '''
r'''

[cuda."chip:*H100*".svd]
values = 3

[cpu.qr]
float32.factor = 4 # dotted
  # end without newline"""

FIELDS = {"date": datetime.date(2026, 11, 30), "torch": '2.14.1 "x"', "worst": 0.5}
WRITTEN = '{ limit = 2, date = 2026-11-30, torch = "2.14.1 \\"x\\"", worst = 0.5 }'


def place(path: str) -> Place:
    section, trait, operation, dtype, measure = path.split("/")
    return Place(section, trait, operation, dtype, measure)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("default////values", "=  50   # keep", f"=  {WRITTEN}   # keep"),
        ("default//svd//values", '{limit =  50 , reason= "a" }', WRITTEN),
        ("cpu//svd//values", "{ limit = 3,   date = 2026-01-01 }", WRITTEN),
        ("cuda/chip:*H100*/svd//values", "values = 3", f"values = {WRITTEN}"),
        ("cpu//qr/float32/factor", "factor = 4", f"factor = {WRITTEN}"),
        (
            "cpu//svd/float32/reconstruction",
            "limit = 3 # three\nreason = '''\nr'''\n",
            'limit = 2 # three\ndate = 2026-11-30\ntorch = "2.14.1 \\"x\\""\nworst = 0.5\n',
        ),
        (
            "cpu//svd//order",
            "date = 2026-01-01 } # c\n",
            f"date = 2026-01-01 }} # c\norder = {WRITTEN}\n",
        ),
        ("cpu//qr/float32/triangle", " # dotted\n", f" # dotted\nfloat32.triangle = {WRITTEN}\n"),
        ("cpu//qr//factor", " # dotted\n", f" # dotted\nfactor = {WRITTEN}\n"),
        (
            "xpu//svd/float32/values",
            "without newline",
            f"without newline\n\n[xpu.svd.float32]\nvalues = {WRITTEN}\n",
        ),
        (
            "cpu/driver:1 2/svd//values",
            "without newline",
            f'without newline\n\n[cpu."driver:1 2".svd]\nvalues = {WRITTEN}\n',
        ),
    ],
)
def test_only_the_entry_changes(path: str, old: str, new: str, newline: str) -> None:
    before = ODD.replace("\n", newline).encode()
    assert ODD.count(old) == 1
    after = rewrite(Path("x.toml"), before, [Change(place(path), 2.0, FIELDS)])
    assert after.decode() == ODD.replace(old, new).replace("\n", newline)
    tomllib.loads(after.decode())


def test_many_changes_at_once() -> None:
    paths = [
        *("default////values", "default////order", "default////factor", "default//svd//values"),
        *("cpu//svd/float64/values", "cpu//svd/float64/order", "cpu//svd/float32/values"),
        *("cpu//qr/float32/factor", "cpu//qr/float64/factor", "cuda//svd//values", "mps////batch"),
    ]
    changes = [Change(place(path), 0.5, FIELDS) for path in paths]
    after = rewrite(Path("x.toml"), ODD.encode(), changes)
    for line in ODD.splitlines():
        if line.startswith(("#", "[", "order", "limit", "\t")):
            assert line in after.decode().splitlines()
    for change in changes:
        file = parse(Path("x.toml"), after)
        assert change.place.keys in file.spots


VALUES = ("3", '"2 * n"', "{ limit = 3 }", "{limit=3,case='}#'}", "0.50")
SECTIONS, OPERATIONS = ("default", "cpu", "mps"), ("svd", "eigh", "qr")
COMMON = ("batch", "layout", "scaling")


def random_file(rng: random.Random) -> str:
    """Sections in any order, with odd spacing and comments here and there."""

    def some(words: Sequence[str]) -> list[str]:
        return rng.sample(words, rng.randint(0, 3))

    lines = []
    for section, operation in ((s, o) for s in some(SECTIONS) for o in some(OPERATIONS)):
        lines.append(
            " " * rng.randint(0, 2) + f"[{section}.{operation}]" + rng.choice(["", " # c"])
        )
        for measure in some(COMMON):
            equals = " " * rng.randint(0, 2) + "=" + " " * rng.randint(0, 2)
            lines.append(measure + equals + rng.choice(VALUES) + rng.choice(["", " #x"]))
        lines += [""] * rng.randint(0, 2)
    return "\n".join(lines) + "\n" * rng.randint(0, 1)


def test_random_files_and_changes() -> None:
    """What is parsed afterwards is what was asked for; doing it again changes nothing."""
    rng = random.Random(0)
    for _ in range(200):
        before = random_file(rng)
        places = {
            Place(rng.choice(SECTIONS), "", rng.choice(OPERATIONS), dtype, measure)
            for dtype in rng.sample(["", "float32", "float64"], 2)
            for measure in rng.sample(COMMON, 2)
        }
        changes = [Change(p, float(rng.randint(1, 9)), {"runs": 3}) for p in sorted(places)]
        after = rewrite(Path("x.toml"), before.encode(), changes)  # this compares the data, too
        kept = [line for line in before.splitlines() if "[" in line]
        assert [line for line in after.decode().splitlines() if line in kept] == kept
        assert rewrite(Path("x.toml"), after, changes) == after


def test_entry_inside_an_inline_table_is_refused() -> None:
    text = b"[cpu]\nsvd = { values = 3 }\n"
    with pytest.raises(ConfigError, match="cannot be edited"):
        rewrite(Path("x.toml"), text, [Change(place("cpu//svd//values"), 2.0, {})])
    with pytest.raises(ConfigError, match="cannot be edited"):
        rewrite(Path("x.toml"), text, [Change(place("cpu//svd/float32/values"), 2.0, {})])


def test_replace_keeps_mode_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text("old")
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    replace(link, b"old", b"new")
    assert path.read_text() == "new"
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(ConfigError, match="changed by someone else"):
        replace(path, b"old", b"newer")
    assert path.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link.toml", "t.toml"]


WRITER = """
import sys
from pathlib import Path
from conformance.formulas import rounded_up
from conformance.rewriting import replace
path, contents = Path(sys.argv[1]), [b"a" * 3_000_000, b"b" * 3_000_000]
print("ready", flush=True)
while True:
    replace(path, contents[0], contents[1])
    contents.reverse()
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """A writer that is killed leaves the old or the new file, never a part."""
    path, seen = tmp_path / "t.toml", set()
    rng = np.random.default_rng(0)
    for _ in range(12):
        path.write_bytes(b"a" * 3_000_000)
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.03)))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        contents = path.read_bytes()
        assert len(contents) == 3_000_000
        assert contents.count(contents[:1]) == 3_000_000
        seen.add(contents[:1])
    assert seen <= {b"a", b"b"}


def test_shipped_file_comes_back(tmp_path: Path) -> None:
    """Every entry of the project's own file can be edited, alone."""
    path = Path(__file__).resolve().parent.parent / "tolerances.toml"
    old = path.read_bytes()
    for spot in Tolerances([read(path)]).entries:
        new = rewrite(path, old, [Change(spot, 1.0, {"runs": 1})])
        pairs = zip(old.splitlines(), new.splitlines(), strict=True)
        assert sum(before != after for before, after in pairs) == 1
