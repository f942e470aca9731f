"""After the search: finalists, the winner's model, and its score on the test part."""
