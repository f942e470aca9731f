"""The keys and rules of the section `model`; each family of networks has a module. The values are in conf/model."""
