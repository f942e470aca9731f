"""The configuration of a training: keys and rules; the values are in conf/."""
