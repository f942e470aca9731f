"""The search toolkit: strategies, splits, dispatch, record, tracking and reports. Knows nothing of torch."""

__version__ = "0.2.0"
