"""One module a mode: what is given, what is predicted, what is left out of the fit."""
