"""What people type who come from another tool: each habit works as typed, or is refused with what to type."""
