"""Tests: they mirror the packages; `contracts/` holds what every strategy, dispatcher and tracker promises."""
