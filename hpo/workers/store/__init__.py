"""What is kept by the SHA-256 of its content, at three places: this machine's disk, a URL, Ray's object store."""
