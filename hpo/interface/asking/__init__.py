"""Ask and tell: a study whose trials are trained where there is no worker."""
