"""A live protocol that wirelake does not have: lines, ``publish TOPIC TEXT``, ``request TOPIC ID TEXT``, …

It shows what a new one takes: this package, and one line that puts its record among the others.
"""
