"""The plain call."""

from __future__ import annotations

from conformance.captures.base import Capture

CAPTURES = (Capture("eager", "the plain call", lambda call: call.function, common=True),)
