"""The configuration of one training: every rule, and no values (they are in conf/)."""
