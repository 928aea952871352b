"""The compiled loops. Only this room imports numba; it knows nothing of protocols, only programs of integers."""
