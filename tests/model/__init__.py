"""The promises of the network and its trainer."""
