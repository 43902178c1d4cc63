"""Measuring a policy: a suite, several samples of every task, several turns of every sample.

`arrays` lays episodes out as tables, `metrics` turns them into numbers with intervals, `rejudge`
evaluates chosen candidates again, `compare` sets runs side by side, `running` does it all.
"""
