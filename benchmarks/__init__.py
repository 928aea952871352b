"""Measurements: how fast and in how much memory wirelake decodes, next to what one would use instead.

``python -m benchmarks`` compares decoders on the same messages; ``python -m benchmarks.soak`` shows that memory is
bounded by the batch, however long a stream is.
"""
