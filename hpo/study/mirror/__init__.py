"""A study's copy at a URL, from which it goes on on any machine."""
