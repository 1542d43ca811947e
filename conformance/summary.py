"""The closing table of a run: worst margins, counts of verdicts, and the reasons of the rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from conformance.cases import Case
from conformance.record import VERDICTS, Measured, Outcome, outcome_of, rank

_REASONS = 12  # reasons listed for each verdict


def stopped(left: int) -> str:
    """What is said of a run that has ended before all its cases were run."""
    return f"STOPPED EARLY: {left} cases were not run"


class Summary:
    """Collects the outcomes of a run as they come in."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.measures = 0
        self.worst: dict[tuple[str, str, str], tuple[Measured, str]] = {}
        self.devices: set[str] = set()
        self.judging: set[str] = set()
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, properties: Iterable[tuple[str, object]]) -> None:
        """Take in the properties of one test; those of a test that is no case are ignored."""
        outcome = outcome_of({name: str(value) for name, value in properties})
        if outcome is not None:
            self.take(outcome)

    def take(self, outcome: Outcome) -> None:
        """Take in one outcome."""
        self.verdicts[outcome.verdict] += 1
        device = outcome.case.partition("/")[0]
        self.devices.add(device)
        if outcome.verdict != "unsupported":
            self.judging.add(device)
        self.measures += len(outcome.measures)
        if outcome.verdict not in ("pass", "fail"):
            self.reasons[outcome.verdict][outcome.reason] += 1
        case = Case.parse(outcome.case)
        key = (case.device, case.operation, case.dtype)
        judged = [m for m in outcome.measures if m.limit != float("inf")]
        for measured in judged if outcome.verdict in ("pass", "fail", "fallback") else ():
            # Exact measures have no margin worth telling, unless they fail.
            if measured.limit > 0 or not measured.conforms:
                known = self.worst.get(key)
                if known is None or rank(measured) > rank(known[0]):
                    self.worst[key] = measured, outcome.case

    def idle(self) -> list[str]:
        """The devices of which not one case was judged: everything was refused, or nothing ran."""
        return sorted(self.devices - self.judging)

    def properties(self) -> dict[str, str]:
        """Counts for the XML."""
        found = {f"count.{verdict}": str(self.verdicts[verdict]) for verdict in VERDICTS}
        return {**found, "count.measures": str(self.measures)}

    def lines(self) -> Iterator[str]:
        """The table, a line each; nothing where no case was run."""
        if not self.verdicts:
            return
        devices = len({device for device, _, _ in self.worst})
        if self.worst:
            yield "worst margin (measure / limit) per operation and dtype"
        for (device, operation, dtype), (measured, case) in sorted(self.worst.items()):
            name = f"{device} {operation}" if devices > 1 else operation
            yield f"  {name:24} {dtype:11} {measured.margin:9.3g}  {measured.name:18} {case}"
        for verdict, reasons in self.reasons.items():
            for reason, count in reasons.most_common(_REASONS):
                yield f"  {verdict} x {count}: {reason}"
            if len(reasons) > _REASONS:
                yield f"  {verdict}: {len(reasons) - _REASONS} more reasons, see the XML"
        for device in self.idle():
            yield f"{device}: NOT ONE CASE COULD BE JUDGED, so the run fails"
        counts = ", ".join(f"{self.verdicts[v]} {v}" for v in VERDICTS if self.verdicts[v])
        total = sum(self.verdicts.values())
        yield f"{total} cases, {self.measures} measures: {counts}"
