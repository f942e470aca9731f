"""A study's folder as a whole: mirrored, archived, copied, moved, cleaned and removed."""
