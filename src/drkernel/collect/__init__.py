"""Cold-start data: a teacher's trajectories, chosen and written as a data set.

`recording` plays and stores; `selection` says which trajectories are worth learning from; `dataset`
writes Parquet and a data card; `teacher` is a rule-based writer of kernels for working offline.
"""
