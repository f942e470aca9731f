"""The configuration of a training: its rules, without values, which are in conf/."""
