"""Processes that run code nobody trusts: the zygote that forks them, the jail, the channel.

``candidate`` and what it imports run in the candidate's process; everything else here is trusted.
"""
