"""The configuration of the network, one file per family: its rules, without values, which are in conf/model."""
