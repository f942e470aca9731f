// On a narrow screen the contents are folded.
if (innerWidth < 960) for (const contents of document.querySelectorAll("nav details")) contents.open = false;
