"""FedAvg's local work, which server optimisers share."""

from _shared import local_step, mean


def mean_move(x, draws, problem, hyper):
    """The mean of y_i − x after every client's steps of SGD."""
    moves = {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            y = y - local_step(hyper, draws.round) * problem.gradient(i, y, rows)
        moves[i] = y - x
    return mean(problem, moves)
