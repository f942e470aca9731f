"""The configuration of the network, a file for each family: every rule, and no values (they are in conf/model)."""
