"""How a study shows itself to somebody who watches: on a terminal, in a notebook, as lines for programs."""
