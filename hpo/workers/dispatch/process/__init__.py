"""The process that trains, seen from its worker: started, watched, ended."""
