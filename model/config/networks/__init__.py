"""The configuration of the network, one file per family: keys and rules; the values are in conf/model."""
