"""Messages -> what the middleware did: exchanges, addresses, sessions, transactions, violations.

Every table here is made of ``facts``, a common view of the messages of all protocols. Nothing in this room knows Spark:
what is in it are pure functions over Arrow tables, and steps that are fed facts in the order of time and keep what is
undecided in a carry.
"""
