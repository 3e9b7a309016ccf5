"""Chess compiled by numba for the CPU, and who is asked: numba or torch; the results are the same bits."""
