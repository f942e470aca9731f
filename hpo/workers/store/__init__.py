"""Storage by the SHA-256 of the content: on this machine's disk, at a URL, and in Ray's object store."""
