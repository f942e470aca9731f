"""The files of a study: its folder, lock, status, requests, notes and imports, and the list of trusted studies."""
