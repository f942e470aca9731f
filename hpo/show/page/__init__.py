"""Live pages of studies on the loopback address: the pages show the report's figures, and do not change the studies."""
