"""The configuration of one training: every rule, and no values (those stand in conf/)."""
