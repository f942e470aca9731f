"""The report as files to read: HTML, Markdown, LaTeX and checklists."""
