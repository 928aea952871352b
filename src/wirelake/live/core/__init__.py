"""The rules of each protocol as state machines over bytes and time: no socket, no asyncio, no clock, no randomness.

A session is told what happens (``connected``, ``receive``, ``disconnected``, ``tick``) and when; what it wants to be
written or closed it leaves on the links of its connections. So a whole life, faults included, can be played in memory.
"""
