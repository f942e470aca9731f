"""Live pages of studies: read without a trace, drawn by the report's figures, served on the loopback address."""
