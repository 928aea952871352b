"""The engine room: plans which captures are new, decodes them, derives gold and commits. It knows no Spark.

A runner (``inline_runner``, or the one in ``spark``) carries the tasks out; every runner gives the same rows.
"""
