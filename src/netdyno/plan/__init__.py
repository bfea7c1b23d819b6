"""From what was asked to trials: the matrix of cells, shuffled rounds, estimates, the budget."""
