"""The files of a study: its folder, its logs, tables that it imports, and what shows that it was made here."""
