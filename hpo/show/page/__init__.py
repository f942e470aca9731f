"""Live pages of studies on the loopback address: they show the report's figures and do not change the study."""
