"""The life of a study: it is checked, opened, resumed and reproduced, and its winner is trained and tested."""
