"""What each command does, from Python and from a shell: one function a command."""
